"""Drawing wrong labels. Pure functions of labels and generator; rows labeled -1 stay so and are not counted."""

from __future__ import annotations

import numpy as np

from pars.noise.transition import Classes, Matrix

Labels = Classes


def corrupt_uniform(labels: Labels, n_classes: int, rate: float, rng: np.random.Generator) -> Labels:
    """Replace the labels of exactly int(rate · n) rows by draws from *all* classes (DivideMix's symmetric noise).

    >>> rng = np.random.default_rng(0)
    >>> given = corrupt_uniform(np.zeros(1000, np.int64), 10, 0.5, rng)
    >>> 0.40 < float((given != 0).mean()) < 0.50                         # a tenth of the draws hits the true class
    True
    """
    given = labels.copy()
    chosen = _choose(labels, rate, rng)
    given[chosen] = rng.integers(n_classes, size=len(chosen))
    return given


def corrupt_by_map(labels: Labels, mapped: Classes, rate: float, rng: np.random.Generator) -> Labels:
    """Replace the labels of exactly int(rate · n) rows by `mapped[label]` (DivideMix's asymmetric noise).

    >>> corrupt_by_map(np.array([0, 1, -1, 1]), np.array([0, 0]), 1.0, np.random.default_rng(0)).tolist()
    [0, 0, -1, 0]
    """
    given = labels.copy()
    chosen = _choose(labels, rate, rng)
    given[chosen] = mapped[labels[chosen]]
    return given


def corrupt_by_matrix(labels: Labels, transition: Matrix, rng: np.random.Generator) -> Labels:
    """Draw each row's label from its class's row of T, independently (Patrini et al. 2017).

    >>> swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> corrupt_by_matrix(np.array([0, 1, -1]), swap, np.random.default_rng(0)).tolist()
    [1, 0, -1]
    """
    given = labels.copy()
    uniform = rng.random(len(labels))
    for true_class, row in enumerate(transition):
        members = np.flatnonzero(labels == true_class)
        cumulative = np.cumsum(row)
        cumulative /= cumulative[-1]  # not row.sum(), which may round otherwise and leave a gap below 1
        # side="right": a class of probability 0 spans an empty interval and is never drawn, not even at uniform = 0.
        given[members] = np.searchsorted(cumulative, uniform[members], side="right")
    return given


def _choose(labels: Labels, rate: float, rng: np.random.Generator) -> Labels:
    labeled = np.flatnonzero(labels >= 0)
    return rng.permutation(labeled)[: int(rate * len(labeled))]
