"""Noise that depends on the input: rows that look alike are mistaken for the same class (Xia et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pars.errors import UserError
from pars.noise.draw import Labels

Features = npt.NDArray[np.float64]

SPREAD = 0.1  # standard deviation of the rows' flip rates, as in Xia et al.
_CHUNK = 4096  # rows held in float64 at a time


def corrupt_by_features(
    labels: Labels, inputs: npt.NDArray[np.generic], n_classes: int, rate: float, rng: np.random.Generator
) -> Labels:
    """Draw wrong labels with a chance and a class that depend on the row (Xia et al. 2020).

    Row i is flipped with probability q_i, drawn around `rate`; the class it is flipped to follows
    softmax(x_i W_y) over the other classes, with one random projection W_y per true class.
    inputs [n, ...] are flattened; each feature is standardized.

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
        projection = rng.standard_normal((len(center), n_classes))  # drawn even if unused: classes do not interact
        for rows in _chunks(np.flatnonzero((labels == true_class) & flipped)):
            scores = (_flat(inputs, rows) - center) / scale @ projection
            scores[:, true_class] = -np.inf
            chances = np.exp(scores - scores.max(axis=1, keepdims=True))
            cumulative = chances.cumsum(axis=1)
            # uniform < 1, so at least the last class with a chance lies above; the true class spans no interval.
            given[rows] = (cumulative <= uniform[rows, None] * cumulative[:, -1:]).sum(axis=1)
    return given


def draw_flip_rates(n: int, rate: float, rng: np.random.Generator) -> Features:
    """Return each row's flip probability: normal around `rate`, truncated to stay within [0, 1].

    Not in the paper: near 0 and 1 the spread shrinks (to a third of the distance), or truncation would move the mean
    away from `rate` (0.1 would become 0.129, and 0 would still flip labels).

    >>> bool((draw_flip_rates(3, 0.0, np.random.default_rng(0)) == 0).all())
    True
    """
    spread = min(SPREAD, rate / 3, (1 - rate) / 3)
    if spread == 0:
        return np.full(n, rate)
    from scipy.special import ndtr, ndtri  # here: most runs need no scipy, and it takes a moment to import

    low, high = ndtr(-rate / spread), ndtr((1 - rate) / spread)
    rates: Features = rate + spread * ndtri(low + (high - low) * rng.random(n))
    return rates.clip(0, 1)


def _standardization(inputs: npt.NDArray[np.generic]) -> tuple[Features, Features]:
    """Mean and standard deviation of each feature; 1 in place of 0, for a constant feature says nothing."""
    every = np.arange(len(inputs))
    width = int(np.prod(inputs.shape[1:]))
    total, squares = np.zeros(width), np.zeros(width)
    for rows in _chunks(every):
        values = _flat(inputs, rows)
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            raise UserError(f"noise.kind = 'instance': row {rows[np.flatnonzero(bad)[0]]} has a NaN or infinite input")
        total += values.sum(axis=0)
    center = total / max(1, len(inputs))
    for rows in _chunks(every):
        squares += ((_flat(inputs, rows) - center) ** 2).sum(axis=0)
    scale = np.sqrt(squares / max(1, len(inputs)))
    return center, np.where(scale > 0, scale, 1.0)


def _flat(inputs: npt.NDArray[np.generic], rows: Labels) -> Features:
    return inputs[rows].reshape(len(rows), -1).astype(np.float64)


def _chunks(rows: Labels) -> Iterator[Labels]:
    for start in range(0, len(rows), _CHUNK):
        yield rows[start : start + _CHUNK]
