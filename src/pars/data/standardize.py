"""Feature vectors to mean 0 and deviation 1, so that dropping a value means "nothing known", whatever its unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.data.dataset import Dataset, Split
from pars.errors import UserError

Rows = npt.NDArray[np.floating[Any]] | npt.NDArray[np.uint8]


def standardized(dataset: Dataset) -> Dataset:
    """The data set with its feature columns standardized by the training rows.

    Images, and features that carry their statistics already, are returned as they are.
    """
    if dataset.train.is_image or dataset.mean:
        return dataset
    mean, std = column_statistics(np.asarray(dataset.train.inputs, dtype=np.float64))
    changed = replace(dataset, mean=tuple(mean.tolist()), std=tuple(std.tolist()))
    test = None if dataset.test is None else _apply(dataset.test, changed)
    return replace(changed, train=_apply(dataset.train, changed), test=test)


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


def _apply(split: Split, dataset: Dataset) -> Split:
    def scaled(rows: Rows) -> npt.NDArray[np.float32]:
        return standardize(rows, dataset.mean, dataset.std, dataset.name)

    cached = None if split.cached is None else scaled(split.cached)
    return replace(split, inputs=scaled(split.inputs), cached=cached)
