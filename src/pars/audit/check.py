"""Validate what the caller passes in: probabilities, labels, class names, further arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.audit.calibration import Floats, Integers
from pars.errors import UserError
from pars.missing import is_missing

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class GivenLabels:
    """Labels as class numbers [n], -1 = unlabeled; and the names of the classes."""

    numbers: Integers
    classes: tuple[str, ...]
    named: bool  # the caller's labels are names, not numbers

    def as_given(self, numbers: Integers) -> Array:
        """Return class numbers in the form of the caller's labels; -1 becomes an empty name."""
        return np.array([*self.classes, ""])[numbers] if self.named else numbers


def check_probabilities(values: Any, name: str = "probabilities") -> npt.NDArray[np.floating[Any]]:
    """Return `values` as an array [n, K]. Each row must sum to about 1 (float16 rounds), without negatives and NaN."""
    p = np.asarray(values)
    if p.ndim != 2 or p.shape[1] < 2 or not len(p):
        raise UserError(f"{name} has shape {list(p.shape)}, expected [rows, classes] with two classes or more")
    if not np.issubdtype(p.dtype, np.floating):
        raise UserError(f"{name} has type {p.dtype}, expected floating-point numbers")
    bad = ~((p >= 0) & (p <= 1.01)).all(axis=1)  # true for NaN, too
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise UserError(f"{name}: row {row} is {_shortened(p[row])}, expected numbers from 0 to 1")
    total = p.sum(axis=1, dtype=np.float64)
    if (bad := abs(total - 1) > 0.05).any():
        row = int(np.flatnonzero(bad)[0])
        raise UserError(f"{name}: row {row} sums to {total[row]:.4g}, expected 1: are these logits or scores?")
    return p


def check_labels(values: Any, n_rows: int, n_classes: int, classes: Sequence[str] | None) -> GivenLabels:
    """Return labels as class numbers.

    values [n]: class numbers 0 … K-1, or names out of `classes`. -1, None, NaN and an empty name mean unlabeled.
    """
    names = tuple(map(str, range(n_classes))) if classes is None else tuple(map(str, classes))
    if len(names) != n_classes or len(set(names)) != n_classes:
        raise UserError(f"classes are {_shortened(names)}, expected {n_classes} different names: one per column")
    labels = np.asarray(values)
    if labels.shape != (n_rows,):
        raise UserError(f"labels have shape {list(labels.shape)}, expected [{n_rows}]: one per row of probabilities")
    if labels.dtype.kind in "iub":
        numbers, named = labels.astype(np.int64), False
    elif labels.dtype.kind == "f":
        whole = np.where(np.isnan(labels), -1, labels)
        numbers, named = whole.astype(np.int64), False
        _check_rows(numbers == whole, labels, "a whole number")
    else:
        texts = ["" if is_missing(value) or value == -1 else value for value in labels.tolist()]
        named = any(isinstance(text, str) and text for text in texts)
        if named and classes is None:
            raise UserError("labels are names: pass classes=[...], the names of the columns of the probabilities")
        position = {name: number for number, name in enumerate(names)} | {"": -1}
        known = np.array([str(text) in position for text in texts])
        _check_rows(known, labels, f"one of {_shortened(names)}")
        numbers = np.array([position[str(text)] for text in texts], dtype=np.int64)
    _check_rows((numbers >= -1) & (numbers < n_classes), labels, f"a class number from 0 to {n_classes - 1}, -1 = none")
    if not (numbers >= 0).any():
        raise UserError("no row has a label: there is nothing to audit")
    return GivenLabels(numbers, names, named)


def check_shape(values: Any, shape: tuple[int, ...], name: str) -> Floats:
    """Return `values` as a finite array of this shape; -1 in a shape stands for any size."""
    array = np.asarray(values)
    if array.ndim != len(shape) or any(want not in (-1, got) for got, want in zip(array.shape, shape, strict=True)):
        words = ["any" if want == -1 else str(want) for want in shape]
        raise UserError(f"{name} has shape {list(array.shape)}, expected [{', '.join(words)}]")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0])
        raise UserError(f"{name}: row {row} has a value that is not finite")
    return array


def _check_rows(valid: npt.NDArray[np.bool_], values: Array, expected: str) -> None:
    if not valid.all():
        row = int(np.flatnonzero(~valid)[0])
        raise UserError(f"labels: row {row} is {values[row : row + 1].tolist()[0]!r}, expected {expected}")


def _shortened(values: Any, limit: int = 6) -> str:
    """A list for a message: the first few values."""
    shown = [f"{value:.4g}" if isinstance(value, float | np.floating) else repr(value) for value in values[:limit]]
    return f"[{', '.join(shown)}{', …' if len(values) > limit else ''}]"
