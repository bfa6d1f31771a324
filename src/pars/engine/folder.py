"""A run is a folder: open formats, every file replaced whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pars.errors import UserError
from pars.files import PART, guarded, write_text


class RunFolder:
    """Names and writes the files of a run.

    config.toml         the resolved configuration
    noise.json          how the labels were corrupted, with the realised confusion matrix
    labels.csv          row, given label, true label (where known)
    metrics.jsonl       one object per epoch
    checkpoint.safetensors   where to resume
    model.safetensors   final weights: `average.` (EMA) and `raw.`
    rows-STAGE.safetensors   what the network thinks of each training row at the end of a stage
    result.json         the outcome in numbers
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.noise = path / "noise.json"
        self.labels = path / "labels.csv"
        self.metrics = path / "metrics.jsonl"
        self.checkpoint = path / "checkpoint.safetensors"
        self.model = path / "model.safetensors"
        self.result = path / "result.json"

    def rows(self, stage: str) -> Path:
        return self.path / f"rows-{stage}.safetensors"

    def create(self) -> None:
        """Make the folder; refuse one that already holds a run."""
        if self.config.exists():
            raise UserError(
                f"{self.path} already holds a run; `pars resume {self.path}` goes on with it, or choose --out"
            )
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file, expected a folder for the run")
        if self.path.exists() and any(self.path.iterdir()):
            raise UserError(f"{self.path} is not empty and not a run; choose a new folder with --out")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the run folder {self.path}: {error.strerror}") from error

    def read_metrics(self) -> list[dict[str, Any]]:
        """The epochs logged so far; a line cut off by a kill is not one."""
        if not self.metrics.exists():
            return []
        lines = self.metrics.read_text(encoding="utf-8").splitlines(keepends=True)
        try:
            return [json.loads(line) for line in lines if line.endswith("\n")]
        except json.JSONDecodeError as error:
            raise UserError(f"{self.metrics} is damaged: {error}; expected one JSON object per line") from error

    def keep_metrics(self, epochs: int) -> None:
        """Forget epochs after the checkpoint, which will be run and logged again, and what a kill left half written."""
        for half in self.path.glob(f".*{PART}"):
            half.unlink(missing_ok=True)
        kept = [line for line in self.read_metrics() if line["epoch"] <= epochs]
        write_text(self.metrics, "".join(json.dumps(line) + "\n" for line in kept))

    def append_metrics(self, line: dict[str, Any]) -> None:
        with guarded(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")
