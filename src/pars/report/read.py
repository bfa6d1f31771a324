"""Read a run folder into plain values: TOML, JSON, CSV and safetensors, checked, without torch."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.errors import UserError
from pars.files import read_arrays
from pars.run_files import RunFiles, check_files, check_run_format, read_epochs

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

TABLES = ("data", "noise", "model", "method", "train")
EPOCH_KEYS = ("epoch", "stage", "images", "flop", "losses", "selection")
ROW_KEYS = ("confidence", "predicted", "given_label_confidence")


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of labels.csv [n] as positions in `names`, -1 = unlabeled.

    `names` are sorted; labels.csv has no class numbers, so positions may differ from the network's classes.
    """

    names: tuple[str, ...]
    given: Integers
    true: Integers | None

    @property
    def labeled(self) -> Mask:
        return self.given >= 0

    @property
    def correct(self) -> Mask:
        """Rows whose label is known to be correct; none without true labels."""
        return self.labeled & (False if self.true is None else self.given == self.true)

    @property
    def wrong(self) -> Mask:
        """Rows whose label is known to be wrong; none without true labels."""
        return self.labeled & (False if self.true is None else (self.true >= 0) & (self.given != self.true))


@dataclass(frozen=True, eq=False)
class RowRecord:
    """Predictions of the averaged weights for every training row [n] at the end of a stage."""

    epoch: int
    confidence: Floats  # probability of the most probable class
    predicted: Integers  # class number of the network, not a position in `Labels.names`
    given_label_confidence: Floats  # probability of the given label; undefined for unlabeled rows

    @property
    def agrees(self) -> Mask:
        """Rows whose given label is predicted; undefined for unlabeled rows."""
        return np.equal(self.given_label_confidence, self.confidence)


@dataclass(frozen=True, eq=False)
class Run:
    """The content of a run folder, except the weights."""

    path: Path
    config: Mapping[str, Any]
    noise: Mapping[str, Any]
    labels: Labels
    metrics: list[dict[str, Any]] = field(default_factory=list)  # one per epoch
    stages: Mapping[str, RowRecord] = field(default_factory=dict)  # of finished stages, in order
    result: Mapping[str, Any] | None = None  # None = not finished

    @property
    def tau(self) -> float | None:
        """The confidence threshold of the method, above which a row is selected; None if it has none."""
        tau = self.config["method"].get("tau")
        return float(tau) if _is_number(tau) else None


def read_run(path: Path) -> Run:
    """Return a run, finished or not. A UserError names the file that is missing or damaged."""
    if not path.is_dir():
        raise UserError(f"{path} is not a run: expected a folder")
    files = RunFiles(path)
    if not files.config.exists():
        raise UserError(f"{path} is not a run: {files.config} is missing")
    check_run_format(path)
    labels = _read_labels(files.labels)
    records = {file: _read_rows(file, len(labels.given)) for file in sorted(path.glob(files.rows("*").name))}
    in_order = sorted(records.items(), key=lambda item: item[1].epoch)
    run = Run(
        path=path,
        config=_read_config(files.config),
        noise=_read_object(files.noise, ("kind", "rate", "realized_rate", "n_labeled")),
        labels=labels,
        metrics=read_metrics(files.metrics),
        stages={file.stem.removeprefix("rows-"): record for file, record in in_order},
        result=_read_object(files.result, ("epochs",)) if files.result.exists() else None,
    )
    if run.result is not None:
        logged = run.metrics[-1]["epoch"] if run.metrics else 0
        if logged != run.result["epochs"]:
            raise UserError(
                f"{files.metrics} has {logged} of the {run.result['epochs']} epochs that {files.result.name} counts: "
                "it is missing or cut off; put it back, or train in a new folder"
            )
        check_files(path)
    return run


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} is missing: every run writes it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = tomllib.loads(_read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    for table in TABLES:
        if not isinstance(config.get(table), dict):
            raise UserError(f"{path} has no table [{table}], expected the configuration of a run")
    return config


def _read_object(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    """A JSON object with at least these keys."""
    try:
        value = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {error}; the file is damaged") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} holds {type(value).__name__}, expected an object with {', '.join(keys)}")
    _check_keys(value, keys, str(path))
    return value


def _check_keys(value: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    missing = [key for key in keys if key not in value]
    if missing:
        raise UserError(f"{where} lacks {', '.join(missing)}; expected an object with {', '.join(keys)}")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the epochs logged so far, as `read_epochs` does, with all that is shown of an epoch."""
    return [_checked_epoch(line, f"{path}, line {number}") for number, line in enumerate(read_epochs(path), 1)]


def _checked_epoch(line: dict[str, Any], where: str) -> dict[str, Any]:
    _check_keys(line, EPOCH_KEYS, where)
    for split in ("test", "holdout"):
        accuracies = line.get(split, {"raw": 0.0, "ema": 0.0})
        valid = isinstance(accuracies, dict) and {"raw", "ema"} <= accuracies.keys()
        if not (valid and all(map(_is_number, accuracies.values()))):
            raise UserError(f"{where}: {split} is {accuracies!r}, expected numbers raw and ema")
    if not all(_is_number(line[key]) for key in ("epoch", "images", "flop")):
        raise UserError(f"{where}: epoch, images and flop must be numbers")
    selections = line["selection"]
    if not (isinstance(selections, dict) and all(_is_selection(value) for value in selections.values())):
        raise UserError(f"{where}: selection is {selections!r}, expected objects with rows, selected and unselected")
    return line


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_selection(value: object) -> bool:
    return (
        isinstance(value, dict)
        and {"rows", "selected", "unselected"} <= value.keys()
        and all(map(_is_number, value.values()))
    )


def _read_labels(path: Path) -> Labels:
    """labels.csv: `row,given` or `row,given,true` with class names, an empty name = unlabeled."""
    # Keep line ends as they are: a class name may contain one.
    text = io.StringIO(_read_text(path), newline="")
    try:
        header, *lines = list(csv.reader(text)) or [[]]
    except csv.Error as error:
        raise UserError(f"{path} is not valid CSV: {error}; the file is damaged") from error
    if header not in (["row", "given"], ["row", "given", "true"]):
        raise UserError(f"{path}: the first line is {','.join(header)!r}, expected row,given or row,given,true")
    for row, line in enumerate(lines):
        if len(line) != len(header) or line[0] != str(row):
            raise UserError(f"{path}: {','.join(line)!r} where row {row} was expected as {','.join(header)}; cut off?")
    columns = [[line[column] for line in lines] for column in range(1, len(header))]
    names = tuple(sorted({name for column in columns for name in column} - {""}))
    position = {name: index for index, name in enumerate(names)} | {"": -1}
    numbers = [np.array([position[name] for name in column], dtype=np.int64) for column in columns]
    return Labels(names, numbers[0], numbers[1] if len(numbers) > 1 else None)


def _read_rows(path: Path, n_rows: int) -> RowRecord:
    """The predictions at the end of a stage, one per row of labels.csv."""
    arrays, note = read_arrays(path, ROW_KEYS)
    confidence, predicted, given = (arrays[key] for key in ROW_KEYS)
    if type(epoch := note.get("epoch")) is not int:
        raise UserError(f"{path} is damaged: its epoch is {epoch!r}, expected a whole number")
    for key, values in zip(ROW_KEYS, (confidence, predicted, given), strict=True):
        if values.shape != (n_rows,):
            raise UserError(f"{path}: {key} has shape {list(values.shape)}, labels.csv has {n_rows} rows")
        if key != "predicted" and not ((values >= 0) & (values < 1.001)).all():  # false for NaN, too
            raise UserError(f"{path}: {key} has values that are not probabilities, expected 0 to 1")
    return RowRecord(epoch, confidence.astype(np.float32), predicted.astype(np.int64), given.astype(np.float32))
