"""Transition matrices and labels from .npy, .csv or .json files; pickles are never loaded."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pars.errors import UserError
from pars.noise.corrupt import Labels
from pars.noise.transition import Matrix, check_matrix

_FORMATS = (".npy", ".csv", ".json")


def read_matrix(path: str, n_classes: int) -> Matrix:
    """Return the transition matrix [K, K] in a file, checked."""
    return check_matrix(_read(path, float), n_classes, f"noise.path {path}")


def read_labels(path: str, classes: Sequence[str] | None = None) -> Labels:
    """Return the labels [n] in a file: class numbers, or names if `classes` are given."""
    values = _read(path, str)
    if values.ndim == 2 and 1 in values.shape:
        values = values.reshape(-1)
    if values.ndim != 1:
        raise UserError(f"noise.path {path}: labels must be one per row, but the file has shape {values.shape}")
    numbers = {name: number for number, name in enumerate(classes or ())}
    labels = np.empty(len(values), np.int64)
    for row, value in enumerate(values.tolist()):
        try:
            labels[row] = numbers[value] if isinstance(value, str) and value in numbers else int(str(value).strip())
        except (ValueError, OverflowError):  # not a number, or one beyond 64 bits
            known = f"class numbers or one of: {', '.join(numbers)}" if numbers else "class numbers"
            raise UserError(f"noise.path {path}: row {row} is {value!r}; labels must be {known}") from None
    return labels


def _read(path: str, csv_type: type) -> npt.NDArray[np.generic]:
    file = Path(path)
    if file.suffix not in _FORMATS:
        raise UserError(f"noise.path {path}: the file name must end in one of: {', '.join(_FORMATS)}")
    if not file.is_file():
        raise UserError(f"noise.path {path}: file not found")
    try:
        values = _parse(file, csv_type)
    except PermissionError:
        raise
    except Exception as error:  # a damaged or hostile file may raise anything, from TokenError to RecursionError
        reason = error if str(error) else type(error).__name__
        raise UserError(f"noise.path {path}: cannot be read as {file.suffix[1:]}: {reason}") from None
    if values.size == 0:
        raise UserError(f"noise.path {path}: the file is empty")
    return values


def _parse(file: Path, csv_type: type) -> npt.NDArray[np.generic]:
    if file.suffix == ".npy":
        return np.asarray(np.load(file, allow_pickle=False))
    if file.suffix == ".json":
        return np.asarray(json.loads(file.read_text(encoding="utf-8")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about an empty file, which _read reports
        return np.loadtxt(file, dtype=csv_type, delimiter=",", ndmin=2, encoding="utf-8")
