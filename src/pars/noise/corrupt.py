"""Corruption of labels: pure functions of labels [n] and a generator. Unlabeled rows (-1) stay unlabeled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pars.errors import UserError
from pars.noise.transition import Classes, Matrix

Labels = Classes
_Floats = npt.NDArray[np.float64]

_SPREAD = 0.1  # standard deviation of the flip rates of rows, as in Xia et al.
_CHUNK = 4096  # rows held in float64 at a time


def corrupt_uniform(labels: Labels, n_classes: int, rate: float, rng: np.random.Generator) -> Labels:
    """Replace exactly int(rate · n) of n labels by draws from *all* classes (symmetric noise of DivideMix).

    >>> rng = np.random.default_rng(0)
    >>> given = corrupt_uniform(np.zeros(1000, np.int64), 10, 0.5, rng)
    >>> 0.40 < float((given != 0).mean()) < 0.50                         # a tenth of the draws is the true class
    True
    """
    given = labels.copy()
    chosen = _choose_rows(labels, rate, rng)
    given[chosen] = rng.integers(n_classes, size=len(chosen))
    return given


def corrupt_by_map(labels: Labels, mapped: Classes, rate: float, rng: np.random.Generator) -> Labels:
    """Replace exactly int(rate · n) of n labels by `mapped[label]` (asymmetric noise of DivideMix).

    >>> corrupt_by_map(np.array([0, 1, -1, 1]), np.array([0, 0]), 1.0, np.random.default_rng(0)).tolist()
    [0, 0, -1, 0]
    """
    given = labels.copy()
    chosen = _choose_rows(labels, rate, rng)
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
        cumulative /= cumulative[-1]  # not row.sum(), which may round differently and leave a gap below 1
        # side="right": a class of probability 0 has an empty interval and is never drawn, not even at uniform = 0.
        given[members] = np.searchsorted(cumulative, uniform[members], side="right")
    return given


def corrupt_by_features(
    labels: Labels, inputs: npt.NDArray[np.generic], n_classes: int, rate: float, rng: np.random.Generator
) -> Labels:
    """Flip labels with a probability and to a class that depend on the input (Xia et al. 2020).

    Row i is flipped with probability q_i, drawn around `rate`. Its new class is drawn from softmax(x_i W_y) over the
    other classes, with one random projection W_y per true class y.
    inputs: [n, ...], flattened; each feature is standardized.

    >>> rng = np.random.default_rng(0)
    >>> given = corrupt_by_features(np.zeros(2000, np.int64), rng.random((2000, 3)), 5, 0.4, rng)
    >>> 0.36 < float((given != 0).mean()) < 0.44
    True
    """
    flip_rates = draw_flip_rates(len(labels), rate, rng)
    flipped = rng.random(len(labels)) < flip_rates
    uniform = rng.random(len(labels))
    center, scale = _standardization(inputs)
    given = labels.copy()
    for true_class in range(n_classes):
        projection = rng.standard_normal((len(center), n_classes))  # drawn even if unused: classes stay independent
        for rows in _chunks(np.flatnonzero((labels == true_class) & flipped)):
            scores = (_flatten(inputs, rows) - center) / scale @ projection
            scores[:, true_class] = -np.inf
            chances = np.exp(scores - scores.max(axis=1, keepdims=True))
            cumulative = chances.cumsum(axis=1)
            # uniform < 1, so some class with a chance lies above it; the true class has an empty interval.
            given[rows] = (cumulative <= uniform[rows, None] * cumulative[:, -1:]).sum(axis=1)
    return given


def draw_flip_rates(n: int, rate: float, rng: np.random.Generator) -> _Floats:
    """Return the flip probability of each of n rows: normal around `rate`, truncated to [0, 1].

    Not in the paper: near 0 and 1 the spread shrinks to a third of the distance. Otherwise truncation would move the
    mean away from `rate`: 0.1 would become 0.129, and 0 would still flip labels.

    >>> bool((draw_flip_rates(3, 0.0, np.random.default_rng(0)) == 0).all())
    True
    """
    spread = min(_SPREAD, rate / 3, (1 - rate) / 3)
    if spread == 0:
        return np.full(n, rate)
    from scipy.special import ndtr, ndtri  # here: most runs need no scipy, which takes a moment to import

    low, high = ndtr(-rate / spread), ndtr((1 - rate) / spread)
    rates: _Floats = rate + spread * ndtri(low + (high - low) * rng.random(n))
    return rates.clip(0, 1)


def _standardization(inputs: npt.NDArray[np.generic]) -> tuple[_Floats, _Floats]:
    """Return mean and standard deviation of each feature; a standard deviation of 0 becomes 1."""
    every = np.arange(len(inputs))
    width = int(np.prod(inputs.shape[1:]))
    total, squares = np.zeros(width), np.zeros(width)
    for rows in _chunks(every):
        values = _flatten(inputs, rows)
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            raise UserError(f"noise.kind = 'instance': row {rows[np.flatnonzero(bad)[0]]} has a NaN or infinite input")
        total += values.sum(axis=0)
    center = total / max(1, len(inputs))
    for rows in _chunks(every):
        squares += ((_flatten(inputs, rows) - center) ** 2).sum(axis=0)
    scale = np.sqrt(squares / max(1, len(inputs)))
    return center, np.where(scale > 0, scale, 1.0)


def _flatten(inputs: npt.NDArray[np.generic], rows: Labels) -> _Floats:
    return inputs[rows].reshape(len(rows), -1).astype(np.float64)


def _chunks(rows: Labels) -> Iterator[Labels]:
    for start in range(0, len(rows), _CHUNK):
        yield rows[start : start + _CHUNK]


def _choose_rows(labels: Labels, rate: float, rng: np.random.Generator) -> Labels:
    labeled = np.flatnonzero(labels >= 0)
    return rng.permutation(labeled)[: int(rate * len(labeled))]
