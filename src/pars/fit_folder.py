"""What is where in the folder of a fit (`pars fit`), and which fit a run belongs to.

job.json           the command, so that the same one resumes
preprocessor.json, columns.json, encoder/   how rows become inputs (`encode.load_preprocessor`)
content.json       texts or pictures and names of the rows, for people (`audit.Content`)
rows.npz           the rows as they were trained on
files.json         checksums of the files above (`run_files.check_files`)
robust/, plain/    two run folders; of a method without a network robust/ holds classic.safetensors
audit/, fit.json   the list of wrong labels; all numbers
"""

from __future__ import annotations

from pathlib import Path

JOB, CONTENT, ROWS, AUDIT, RESULT = "job.json", "content.json", "rows.npz", "audit", "fit.json"
ROBUST, PLAIN = "robust", "plain"


def run_of(path: Path) -> Path:
    """The run that a folder stands for: of a fit its robust one, else the folder itself."""
    return path / ROBUST if (path / JOB).exists() and (path / ROBUST).is_dir() else path


def fit_of(path: Path) -> Path | None:
    """The folder of the fit that this is, or that this run belongs to."""
    for folder in (path, path.resolve().parent):
        if (folder / JOB).exists() and (folder / ROBUST).is_dir():
            return folder
    return None
