"""Is this split what the rest of the library expects? If not, the first thing wrong with it, by row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pars.data.dataset import UNLABELED, Labels, Split
from pars.errors import UserError


def check_split(split: Split, n_classes: int, where: str, *, training: bool = False) -> None:
    """Raise a UserError naming the first bad row: shapes, dtypes, label range, NaN features.

    With `training` also when a class has no labeled row: nothing could be learned about it.

    >>> check_split(Split(np.zeros((2, 3), np.float32), np.array([0, 5])), n_classes=2, where="mine.npz")
    Traceback (most recent call last):
        ...
    pars.errors.UserError: mine.npz: labels: row 1 is 5, expected 0..1 or -1 (unlabeled); ...
    """
    if n_classes < 2:
        raise UserError(f"{where}: {n_classes} class(es), expected at least 2; are all labels the same?")
    _check_inputs(split.inputs, where)
    if split.cached is not None:
        _check_cached(split.cached, split.inputs.shape, where)
    n = len(split.inputs)
    check_labels(split.labels, n, n_classes, f"{where}: labels")
    if split.true_labels is not None:
        check_labels(split.true_labels, n, n_classes, f"{where}: true labels")
    if training:
        _check_every_class(split.labels, n_classes, where)


def check_labels(labels: Labels, n: int, n_classes: int, where: str) -> None:
    """Raise a UserError unless there are n int64 labels, each -1 or a class number."""
    if labels.dtype != np.int64:
        raise UserError(f"{where}: dtype {labels.dtype}, expected int64 class numbers")
    if labels.shape != (n,):
        raise UserError(f"{where}: shape {list(labels.shape)}, expected one label per row: [{n}]")
    bad = np.flatnonzero((labels < UNLABELED) | (labels >= n_classes))
    if bad.size:
        raise UserError(
            f"{where}: row {bad[0]} is {labels[bad[0]]}, expected 0..{n_classes - 1} or -1 (unlabeled); "
            f"{bad.size} such row(s): counted from 1, or a class name missing?"
        )


def _check_inputs(inputs: npt.NDArray[np.generic], where: str) -> None:
    shape = list(inputs.shape)
    if inputs.ndim == 4:
        wanted: type[np.generic] = np.uint8
    elif inputs.ndim == 2:
        wanted = np.float32
    else:
        raise UserError(f"{where}: inputs of shape {shape}, expected images [n, C, H, W] or feature vectors [n, d]")
    if inputs.dtype != wanted:
        raise UserError(f"{where}: inputs of shape {shape} and dtype {inputs.dtype}, expected {wanted.__name__}")
    if len(inputs) == 0:
        raise UserError(f"{where}: no rows, expected at least one; was everything filtered out?")
    if 0 in shape:
        raise UserError(f"{where}: inputs of shape {shape}: rows without a single value")
    if inputs.ndim == 2:
        _check_finite(inputs, where)


def _check_cached(cached: npt.NDArray[np.generic], shape: tuple[int, ...], where: str) -> None:
    expected = [shape[0], "2N", *shape[1:]]
    fits = cached.ndim == 3 and len(shape) == 2 and (cached.shape[0], cached.shape[2]) == shape
    if not fits or cached.shape[1] < 2 or cached.shape[1] % 2 or cached.dtype != np.float32:
        raise UserError(
            f"{where}: views encoded beforehand of shape {list(cached.shape)} and dtype {cached.dtype}, "
            f"expected {expected} and float32"
        )
    _check_finite(cached, f"{where} (views)")


def _check_finite(features: npt.NDArray[np.generic], where: str) -> None:
    step = max(1, 2**24 // int(np.prod(features.shape[1:])))  # in parts: a memory map may be larger than memory
    for start in range(0, len(features), step):
        part = features[start : start + step]
        finite = np.isfinite(part)
        if not finite.all():
            row, *column = np.argwhere(~finite)[0].tolist()
            raise UserError(
                f"{where}: row {start + row}, column {', '.join(map(str, column))} is {part[row, *column]}, "
                "expected a finite number; "
                "missing values have to be filled in or their rows left out"
            )


def _check_every_class(labels: Labels, n_classes: int, where: str) -> None:
    counts = np.bincount(labels[labels != UNLABELED], minlength=n_classes)
    empty = np.flatnonzero(counts == 0)
    if empty.size:
        raise UserError(
            f"{where}: class {empty[0]} has no labeled rows ({empty.size} of {n_classes} classes have none), expected "
            "at least one of each; too few rows kept, or a gap in the class numbers?"
        )
