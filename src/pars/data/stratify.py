"""Choosing rows class by class."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pars.data.dataset import UNLABELED, Labels

Mask = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]


def proportional(counts: Counts, total: int) -> Counts:
    """Share `total` among classes in proportion to their counts (largest remainders; ties to the lower class).

    >>> proportional(np.array([50, 30, 20]), 9)
    array([4, 3, 2])
    """
    exact = counts * (total / counts.sum())
    quota: Counts = np.floor(exact + 1e-9).astype(
        np.int64
    )  # 1e-9: a share that is whole must not be floored below itself
    order = np.argsort(quota - exact, kind="stable")
    quota[order[: total - quota.sum()]] += 1
    return quota


def equal(counts: Counts, total: int, order: Counts) -> Counts:
    """Share `total` equally among classes, none beyond its count; the rest of the division goes by `order`.

    >>> equal(np.array([9, 9, 2]), 11, order=np.array([1, 0, 2]))
    array([4, 5, 2])
    """
    quota = np.zeros_like(counts)
    while (left := total - int(quota.sum())) > 0:
        open_classes = order[quota[order] < counts[order]]
        share = left // len(open_classes)
        if share == 0:
            quota[open_classes[:left]] += 1
        else:
            quota[open_classes] += np.minimum(share, counts[open_classes] - quota[open_classes])
    return quota


def class_counts(labels: Labels, n_classes: int) -> Counts:
    """How many labeled rows each class has."""
    return np.bincount(labels[labels != UNLABELED], minlength=n_classes).astype(np.int64)


def choose(labels: Labels, quota: Counts, generator: np.random.Generator) -> Mask:
    """A mask over rows with quota[c] rows of each class c, drawn without replacement."""
    mask = np.zeros(len(labels), dtype=np.bool_)
    for c, wanted in enumerate(quota):
        mask[generator.permutation(np.flatnonzero(labels == c))[:wanted]] = True
    return mask
