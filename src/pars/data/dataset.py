"""What a data set is to the rest of the library: rows with a number, a given label, and perhaps a true one apart.

`check_split` names the first thing wrong with rows; `standardized` brings feature vectors to mean 0 and deviation 1, so
that dropping a value means "nothing known", whatever its unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.errors import UserError

Labels = npt.NDArray[np.int64]
Inputs = npt.NDArray[np.uint8] | npt.NDArray[np.float32] | npt.NDArray[np.int32]
Rows = npt.NDArray[np.floating[Any]] | npt.NDArray[np.uint8] | npt.NDArray[np.int32]

UNLABELED = -1
# What a person has said about a row: nothing; its label is right; the same, and it is kept for testing; no class fits.
UNCHECKED, CHECKED, TRUSTED, DROPPED = 0, 1, 2, 3


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of one kind. A row's identity is its number.

    inputs: uint8 images [n, C, H, W], float32 feature vectors [n, d], or texts as int32 token numbers [n, T], -1 where
        a text has ended; perhaps a read-only memory map.
    labels: given labels [n], `-1` = unlabeled.
    true_labels: the right labels where known; only noise generation and metrics may read them.
    cached: feature vectors only: views of each row made before it was encoded, [n, 2N, d]: N weak, then N strong ones.
    checked: which labels people have checked [n]; rows that are TRUSTED or DROPPED are not trained on.
    """

    inputs: Inputs
    labels: Labels
    true_labels: Labels | None = None
    cached: npt.NDArray[np.float32] | None = None
    checked: npt.NDArray[np.int8] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_image(self) -> bool:
        return self.inputs.ndim == 4

    @property
    def is_text(self) -> bool:
        return self.inputs.dtype == np.int32

    @property
    def features(self) -> npt.NDArray[np.float32] | None:
        """Feature vectors [n, d], which have neighbors; None for images and texts."""
        return None if self.is_image or self.is_text else self.inputs  # type: ignore[return-value]

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Rows whose label people have checked [n]."""
        if self.checked is None:
            return np.zeros(len(self), dtype=np.bool_)
        return np.isin(self.checked, (CHECKED, TRUSTED))

    def first(self, n: int) -> Split:
        """The first n rows; they keep their numbers."""
        more = ("true_labels", "cached", "checked")
        cut = (None if (values := getattr(self, name)) is None else values[:n] for name in more)
        return Split(self.inputs[:n], self.labels[:n], *cut)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A training split, a test split where there is one, and the names of the classes."""

    name: str
    train: Split
    test: Split | None
    classes: tuple[str, ...]
    mean: tuple[float, ...] = field(default=())  # per channel, in units of 0..1; images only
    std: tuple[float, ...] = field(default=())

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def with_labels(self, labels: Labels, true_labels: Labels | None) -> Dataset:
        """The same rows with other given labels (corrupted ones, human ones, some withheld)."""
        return replace(self, train=replace(self.train, labels=labels, true_labels=true_labels))


def channel_statistics(images: npt.NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel in units of 0..1, exact: from counts of the 256 values.

    >>> channel_statistics(np.array([[[[0, 255]]]], dtype=np.uint8))
    ((0.5,), (0.5,))
    """
    counts = np.zeros((images.shape[1], 256), dtype=np.int64)
    for start in range(0, len(images), 4096):  # in parts: a memory map may be larger than memory
        for channel, of_channel in enumerate(counts):
            of_channel += np.bincount(images[start : start + 4096, channel].ravel(), minlength=256)
    values = np.arange(256) / 255
    weights = counts / counts.sum(axis=1, keepdims=True)
    mean = weights @ values
    std = np.sqrt((weights * (values - mean[:, None]) ** 2).sum(axis=1))
    std[std == 0] = 1.0  # a constant channel says nothing; it becomes 0
    return tuple(mean.tolist()), tuple(std.tolist())


def check_split(split: Split, n_classes: int, where: str, *, training: bool = False) -> None:
    """Raise a UserError naming the first bad row: shapes, dtypes, label range, NaN features.

    With `training` also when a class has no labeled row: nothing could be learned about it.

    >>> check_split(Split(np.zeros((2, 3), np.float32), np.array([0, 5])), n_classes=2, where="mine.npz")
    Traceback (most recent call last):
        ...
    pars.errors.UserError: mine.npz: labels: row 1 is 5, expected 0..1 or -1 (unlabeled); ...
    """
    inputs, shape = split.inputs, list(split.inputs.shape)
    if n_classes < 2:
        raise UserError(f"{where}: {n_classes} class(es), expected at least 2; are all labels the same?")
    if inputs.ndim not in (2, 4):
        raise UserError(f"{where}: inputs of shape {shape}, expected images [n, C, H, W] or feature vectors [n, d]")
    wanted = "uint8" if inputs.ndim == 4 else "float32"
    if inputs.dtype != wanted and not (split.is_text and inputs.ndim == 2):
        raise UserError(f"{where}: inputs of shape {shape} and dtype {inputs.dtype}, expected {wanted}")
    if len(inputs) == 0:
        raise UserError(f"{where}: no rows, expected at least one; was everything filtered out?")
    if 0 in shape:
        raise UserError(f"{where}: inputs of shape {shape}: rows without a single value")
    if inputs.ndim == 2:
        _check_finite(inputs, where)
    if split.cached is not None:
        _check_cached(split.cached, inputs.shape, where)
    check_labels(split.labels, len(inputs), n_classes, f"{where}: labels")
    if split.true_labels is not None:
        check_labels(split.true_labels, len(inputs), n_classes, f"{where}: true labels")
    if training:
        empty = np.flatnonzero(np.bincount(split.labels[split.labels != UNLABELED], minlength=n_classes) == 0)
        if empty.size:
            raise UserError(
                f"{where}: class {empty[0]} has no labeled rows ({empty.size} of {n_classes} classes have none), "
                "expected at least one of each; too few rows kept, or a gap in the class numbers?"
            )


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


def standardized(dataset: Dataset) -> Dataset:
    """The data set with its feature columns standardized by the training rows.

    Images, and features that carry their statistics already, are returned as they are.
    """
    if dataset.train.inputs.ndim == 4 or dataset.mean:
        return dataset
    if dataset.train.is_text:  # token numbers stay what they are
        length = dataset.train.inputs.shape[1]
        return replace(dataset, mean=(0.0,) * length, std=(1.0,) * length)
    mean, std = (
        tuple(values.tolist()) for values in column_statistics(np.asarray(dataset.train.inputs, dtype=np.float64))
    )
    splits = [dataset.train] if dataset.test is None else [dataset.train, dataset.test]
    train, *test = [
        replace(
            split,
            inputs=standardize(split.inputs, mean, std, dataset.name),
            cached=None if split.cached is None else standardize(split.cached, mean, std, dataset.name),
        )
        for split in splits
    ]
    return replace(dataset, train=train, test=test[0] if test else None, mean=mean, std=std)


def column_statistics(columns: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and standard deviation of each column [n, d]; a constant column has deviation 1.

    >>> [values.tolist() for values in column_statistics(np.array([[1.0, 5.0], [3.0, 5.0]]))]
    [[2.0, 5.0], [1.0, 1.0]]
    """
    unit = np.abs(columns).max(axis=0)
    extreme = (unit > 1e100) | ((unit > 0) & (unit < 1e-100))  # the square of 1e200 is inf, that of 1e-200 is 0
    if extreme.any():
        unit = np.where(extreme, unit, 1.0)
        mean, std = column_statistics(columns / unit)
        return mean * unit, std * unit
    mean, std = columns.mean(axis=0), columns.std(axis=0)
    std[std < 1e-12 * np.maximum(1, np.abs(mean))] = 1.0  # a constant column carries no information: it becomes 0
    return mean, std


def standardize(inputs: Rows, mean: Sequence[float], std: Sequence[float], where: str) -> npt.NDArray[np.float32]:
    """(x - mean) / std per column (the last axis), computed in float64, returned in float32.

    A UserError names the first row with a value too far from the training rows to be a float32.

    >>> standardize(np.array([[1.0, 5.0], [3.0, 5.0]]), (2.0, 5.0), (1.0, 1.0), "mine.npz").tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    scaled = np.empty(inputs.shape, dtype=np.float32)
    step = max(1, 2**22 // max(1, int(np.prod(inputs.shape[1:]))))  # in chunks: float64 copies may exceed memory
    with np.errstate(over="ignore"):
        for start in range(0, len(inputs), step):
            chunk = inputs[start : start + step].astype(np.float64)
            scaled[start : start + step] = (chunk - np.asarray(mean)) / np.asarray(std)
    bad = np.argwhere(~np.isfinite(scaled))
    if bad.size:
        row, *column = bad[0].tolist()
        raise UserError(
            f"{where}: row {row}, column {', '.join(map(str, column))} is {inputs[row, *column]:g}: "
            "not finite after standardization with the training statistics"
        )
    return scaled
