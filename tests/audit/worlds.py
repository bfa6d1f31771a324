"""Rows whose true class, noise and network are known: every answer of an audit can be compared with the exact one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class World:
    """p is exactly P(given label | x); `right` exactly P(label right | x, label)."""

    p: Floats
    labels: Integers
    true: Integers
    right: Floats
    transition: Floats

    @property
    def wrong(self) -> npt.NDArray[np.bool_]:
        return np.not_equal(self.labels, self.true)


def world(
    n: int = 4000, k: int = 5, *, rate: float = 0.2, kind: str = "symmetric", sharp: float = 16.0, seed: int = 0
) -> World:
    """Class probabilities g from Gaussian scores, true labels drawn from g, given ones from the true ones by T."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((n, k)) * sharp
    clean = np.exp(scores - scores.max(axis=1, keepdims=True))
    clean /= clean.sum(axis=1, keepdims=True)
    true = draw(clean, rng)
    spread, to_the_next = np.full((k, k), rate / (k - 1)), np.roll(np.eye(k), 1, axis=1) * rate
    transition = spread if kind == "symmetric" else to_the_next
    np.fill_diagonal(transition, 1 - rate)
    labels = draw(transition[true], rng)
    p = clean @ transition
    rows = np.arange(n)
    right = clean[rows, labels] * transition[labels, labels] / p[rows, labels]
    return World(p, labels, true, right, transition)


def draw(p: Floats, rng: np.random.Generator) -> Integers:
    return np.asarray((p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1).clip(max=p.shape[1] - 1), np.int64)


def calibration_error(probability: Floats, right: npt.NDArray[np.bool_], bins: int = 15) -> float:
    edges = np.linspace(0, 1, bins + 1)
    total = 0.0
    for low, high in pairwise(edges):
        here = (probability > low) & (probability <= high)
        if here.any():
            total += here.mean() * abs(probability[here].mean() - right[here].mean())
    return float(total)
