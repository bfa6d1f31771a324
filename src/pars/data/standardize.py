"""Feature vectors to mean 0 and deviation 1, so that dropping a value means "nothing known", whatever its unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pars.data.dataset import Dataset, Inputs, Split


def standardized(dataset: Dataset) -> Dataset:
    """The data set with its feature columns standardized by the training rows; images are left alone."""
    if dataset.train.is_image:
        return dataset
    mean, std = column_statistics(np.asarray(dataset.train.inputs, dtype=np.float64))
    changed = replace(dataset, mean=tuple(mean.tolist()), std=tuple(std.tolist()))
    test = None if dataset.test is None else _apply(dataset.test, changed)
    return replace(changed, train=_apply(dataset.train, changed), test=test)


def column_statistics(columns: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and deviation of each column [n, d]; a constant column has deviation 1.

    >>> [values.tolist() for values in column_statistics(np.array([[1.0, 5.0], [3.0, 5.0]]))]
    [[2.0, 5.0], [1.0, 1.0]]
    """
    mean, std = columns.mean(axis=0), columns.std(axis=0)
    std[std < 1e-12 * np.maximum(1, np.abs(mean))] = 1.0  # it says nothing; it becomes 0
    return mean, std


def _apply(split: Split, dataset: Dataset) -> Split:
    cached = None if split.cached is None else standardize(split.cached, dataset.mean, dataset.std)
    return replace(split, inputs=standardize(split.inputs, dataset.mean, dataset.std), cached=cached)


def standardize(inputs: Inputs, mean: tuple[float, ...], std: tuple[float, ...]) -> npt.NDArray[np.float32]:
    """(x - mean) / std per column (the last axis), in float32.

    >>> standardize(np.array([[1.0, 5.0], [3.0, 5.0]], dtype=np.float32), (2.0, 5.0), (1.0, 1.0)).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    scaled = np.empty(inputs.shape, dtype=np.float32)
    step = max(1, 2**22 // max(1, int(np.prod(inputs.shape[1:]))))  # in parts: in float64 all of it may be too much
    for start in range(0, len(inputs), step):
        part = inputs[start : start + step].astype(np.float64)
        scaled[start : start + step] = (part - np.asarray(mean)) / np.asarray(std)
    return scaled
