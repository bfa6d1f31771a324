"""The files of a run folder by name, and the version of their format.

`inputs.json` carries the version under the key "format". Folders written before it did are of version 1.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pars.errors import UserError

VERSION = 2
FILES = "files.json"
"""Of a finished run, and of the rows of a fit: the checksum of each file beside it."""


class RunFiles:
    """Where the files of a run are.

    config.toml         the resolved configuration
    inputs.json         format version, settings, checksums of the data and CPU threads it began with; what was given
                        from Python
    plan.json           with a budget: what each epoch is expected to cost
    noise.json          how the labels were corrupted, with the realized confusion matrix
    labels.csv          row, given label, true label (where known)
    metrics.jsonl       one object per epoch
    checkpoint.safetensors   where to resume
    model.safetensors   final weights: `average.` (EMA) and `raw.`
    rows-STAGE.safetensors   predictions of each training row at the end of a stage
    dynamics.safetensors     per-example training dynamics: for the audit
    files.json          checksums of the files above, when the run ended: `check_files` compares
    result.json         the outcome in numbers
    lock                there while a process trains, or after it was killed
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.inputs = path / "inputs.json"
        self.plan = path / "plan.json"
        self.noise = path / "noise.json"
        self.labels = path / "labels.csv"
        self.metrics = path / "metrics.jsonl"
        self.checkpoint = path / "checkpoint.safetensors"
        self.model = path / "model.safetensors"
        self.dynamics = path / "dynamics.safetensors"
        self.files = path / FILES
        self.result = path / "result.json"
        self._lock = path / "lock"

    def rows(self, stage: str) -> Path:
        """The file of a stage's end; "*" is a pattern for all of them."""
        return self.path / f"rows-{stage}.safetensors"


def read_epochs(metrics: Path) -> list[dict[str, Any]]:
    """The epochs that a metrics.jsonl has so far, each with its number "epoch"; none where there is no file.

    A last line without an end, left by a process that was killed, is not one.
    """
    if not metrics.exists():
        return []
    try:
        lines = metrics.read_bytes().decode("utf-8").split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{metrics} is damaged: {error}; expected one JSON object per line") from error
    epochs = []
    for number, line in enumerate(lines, 1):
        try:
            epoch = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{metrics} is damaged: line {number} is not valid JSON: {error}") from error
        if not isinstance(epoch, dict) or type(epoch.get("epoch")) is not int:
            raise UserError(f"{metrics} is damaged: line {number} is no object with a whole number 'epoch'")
        epochs.append(epoch)
    return epochs


def check_files(folder: Path, *names: str) -> None:
    """Raise a UserError where a file is not the one that was written with the others of its folder.

    names: the files that are about to be used; all by default. A folder without files.json, of a run that is not
    finished or was written before there was one, is not checked.
    """
    path = folder / FILES
    if not path.exists():
        return
    try:
        expected = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(expected, dict):
            raise TypeError(f"it holds a {type(expected).__name__}")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error!r}") from error
    for name in names or expected:
        if name not in expected:
            continue
        file = folder / name
        if not file.is_file():
            raise UserError(f"{file} is missing: {path} names it; put it back, or begin again in a new folder")
        with file.open("rb") as stream:
            found = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
        if found != expected[name]:
            raise UserError(
                f"{file} is not the file that was written with the others of {folder} (its checksum is not that of "
                f"{path.name}): changed, or copied from elsewhere? put it back, or begin again in a new folder"
            )


def check_run_format(folder: Path) -> None:
    """Raise a UserError unless the run in a folder was written in the format that this version reads."""
    path = RunFiles(folder).inputs
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing: it says which version of pars wrote the run, and on which data") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error!r}") from error
    found = content.get("format", 1) if isinstance(content, dict) else None
    if type(found) is not int or found < 1:
        raise UserError(f"{path} is damaged: format is {found!r}, expected a whole number")
    if found != VERSION:
        written, mend = ("an older", "train it again") if found < VERSION else ("a newer", "upgrade pars")
        raise UserError(
            f"{folder} was written by {written} version of pars: run format {found}, this one reads {VERSION}; {mend}"
        )
