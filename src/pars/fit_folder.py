"""What is where in the folder of a fit (`pars fit`), and which fit a run belongs to.

job.json           the command, so that the same one resumes
preprocessor.json, columns.json, encoder/   how rows become inputs (`encode.load_preprocessor`)
content.json       texts or images and names of the rows, for people (`audit.Content`)
rows.npz           the rows as they were trained on
files.json         checksums of the files above (`run_files.check_files`)
robust/, plain/    two run folders; of a method without a network robust/ holds classic.safetensors
before/            of a fit with checked labels, perhaps: the same method trained on the labels before the review
audit/, fit.json   the list of wrong labels; all numbers
review/            decisions of `pars review`, and the files made of them
"""

from __future__ import annotations

import json
from pathlib import Path

from pars.errors import UserError

JOB, CONTENT, ROWS, AUDIT, RESULT = "job.json", "content.json", "rows.npz", "audit", "fit.json"
ROBUST, PLAIN, BEFORE, REVIEW = "robust", "plain", "before", "review"


def run_of(path: Path) -> Path:
    """The run that a folder stands for: of a fit its robust one, else the folder itself."""
    if (path / JOB).exists() and (path / ROWS).exists() and not (path / ROBUST).is_dir():
        raise UserError(f"{path} is a fit, but {path / ROBUST} is missing: the same command of pars fit trains it")
    return path / ROBUST if (path / JOB).exists() and (path / ROBUST).is_dir() else path


def fit_of(path: Path) -> Path | None:
    """The folder of the fit that this is, or that this run belongs to."""
    for folder in (path, path.resolve().parent):
        if (folder / JOB).exists() and (folder / ROBUST).is_dir():
            return folder
    return None


def fit_command(fit: Path) -> list[str]:
    """The words of the command that made a fit, as its folder tells it, without --out.

    DATA stands for rows that came from Python; a path below the present folder is relative to it.
    """
    try:
        job = json.loads((fit / JOB).read_text(encoding="utf-8"))
        source = json.loads((fit / CONTENT).read_text(encoding="utf-8")).get("source")
        if source is not None and Path(source).is_relative_to(Path.cwd()):
            source = Path(source).relative_to(Path.cwd())
        words = ["pars", "fit", str(source or "DATA")]
        for name, value in job["columns"].items():
            words += [f"--{name}", *(map(str, value) if isinstance(value, list) else [str(value)])]
        flags = {"encoder": "--encoder", "encoded_views": "--views", "method": "--method", "seed": "--seed"}
        for key, flag in flags.items():
            if job[key] not in (None, 0, "pars"):
                words += [flag, str(job[key])]
        network = job.get("network")  # a name, or a dict of settings
        for key, value in (network if isinstance(network, dict) else {"name": network}).items():
            if value is not None:
                words += ["--network" if key == "name" else f"--{key}", str(value)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{fit} is damaged ({error!r}): expected a fit with {JOB} and {CONTENT}") from None
    return words
