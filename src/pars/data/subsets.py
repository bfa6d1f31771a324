"""Choose rows class by class: which keep their label, and which are held out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pars.data.dataset import UNLABELED, Dataset, Labels
from pars.errors import UserError
from pars.seeds import generator

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


def choose(labels: Labels, quota: Counts, generator: np.random.Generator) -> Mask:
    """A mask over rows with quota[c] rows of each class c, drawn without replacement."""
    mask = np.zeros(len(labels), dtype=np.bool_)
    for c, wanted in enumerate(quota):
        mask[generator.permutation(np.flatnonzero(labels == c))[:wanted]] = True
    return mask


def labeled_rows(true_labels: Labels, n_labeled: int, n_classes: int, seed: int) -> Mask:
    """A class-balanced choice of rows, by their true labels.

    What does not divide evenly goes to classes drawn at random; a class with too few rows gives all it has and the
    others give more.

    >>> mask = labeled_rows(np.array([0, 0, 0, 1, 1, 1]), 4, 2, seed=0)
    >>> int(mask[:3].sum()), int(mask[3:].sum())
    (2, 2)
    """
    counts = np.bincount(true_labels[true_labels != UNLABELED], minlength=n_classes)
    if n_labeled > counts.sum():
        raise UserError(f"labeled: {n_labeled}, expected at most {counts.sum()}, the number of rows that have a label")
    if n_labeled < n_classes:
        raise UserError(f"labeled: {n_labeled}, expected at least {n_classes}, one for each class")
    draw = generator(seed, "low-resource")
    return choose(true_labels, equal(counts, n_labeled, order=draw.permutation(n_classes)), draw)


def low_resource(dataset: Dataset, n_labeled: int, seed: int) -> Dataset:
    """Withhold all but n_labeled training labels. Comes *before* corruption: the balance is that of clean labels.

    Where true labels are not known, the given ones decide.
    """
    train = dataset.train
    known = train.labels if train.true_labels is None else train.true_labels
    # A row whose given label is missing already cannot become a labeled one.
    known = np.where(train.labels == UNLABELED, UNLABELED, known)
    mask = labeled_rows(known, n_labeled, dataset.n_classes, seed)
    return dataset.with_labels(np.where(mask, train.labels, UNLABELED), train.true_labels)


def holdout(labels: Labels, fraction: float, seed: int) -> Mask:
    """Labeled rows set aside for validation on *given* labels: `fraction` of them, each class by its share.

    Every class keeps at least one row for training; unlabeled rows are never set aside.

    >>> mask = holdout(np.array([0] * 10 + [1] * 20 + [-1] * 5), 0.2, seed=0)
    >>> int(mask[:10].sum()), int(mask[10:30].sum()), int(mask[30:].sum())
    (2, 4, 0)
    """
    if not 0 <= fraction < 1:
        raise UserError(f"holdout: {fraction}, expected a fraction from 0 up to, not including, 1")
    counts = np.bincount(labels[labels != UNLABELED], minlength=1)
    total = round(fraction * int(counts.sum()))
    if total == 0:
        return np.zeros(len(labels), dtype=np.bool_)
    quota = np.minimum(proportional(counts, total), np.maximum(counts - 1, 0))
    return choose(labels, quota, generator(seed, "holdout"))
