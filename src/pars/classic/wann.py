"""Adaptive weighted nearest neighbors (WANN): as many neighbors as a label's surroundings need to agree with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pars.classic.model import Arrays, Floats, Integers
from pars.errors import UserError

_COUNTS = 2**24  # of votes held at a time
_FIRST = 1e-6  # by which the nearest of tied classes is ahead


@dataclass(frozen=True, kw_only=True)
class WANN:
    """The reliability of a label is 1/k, k being the fewest neighbors whose majority is that label.

    A row is classified by as many neighbors as its nearest one needs, each weighted by its reliability. Neighbors are
    nearest by Euclidean distance.
    """

    k_min: int = 11  # the fewest neighbors
    k_max: int = 51  # k of a label that no majority of fewer neighbors confirms
    standardize: bool = True  # columns have deviation 1, as for every other method; off: as published

    def __post_init__(self) -> None:
        if not (1 <= self.k_min < self.k_max <= 1001 and self.k_min % 2 and self.k_max % 2):
            raise UserError(
                f"method.k_min is {self.k_min} and method.k_max {self.k_max}, expected odd numbers, the first smaller"
            )

    def fit(
        self, x: Floats, labels: Integers, n_classes: int, seed: int
    ) -> tuple[NeighborVotes, npt.NDArray[np.float64]]:
        """The model, and each row's probabilities from the other rows. Nothing is random: `seed` is not used.

        A row's label has no vote in its own probabilities, but had one in the reliability of its neighbors.
        """
        if len(x) <= self.k_max:
            raise UserError(f"wann needs more than {self.k_max} labeled rows, there are {len(x)}; method.k_max is less")
        neighbors = _nearest(x, None, self.k_max)
        k = adaptive_k(labels[neighbors], labels, self.k_min, self.k_max, n_classes)
        model = NeighborVotes(np.asarray(x, dtype=np.float32), labels, k, n_classes)
        return model, model.votes(neighbors)


@dataclass(frozen=True, eq=False)
class NeighborVotes:
    """Training rows [n, d], their labels [n], and the number of neighbors k [n] that each label needs."""

    x: npt.NDArray[np.float32]
    labels: Integers
    k: Integers
    n_classes: int

    def predict_proba(self, x: Floats) -> npt.NDArray[np.float64]:
        return self.votes(_nearest(self.x, x, int(self.k.max())))

    def votes(self, neighbors: Integers) -> npt.NDArray[np.float64]:
        """Probabilities [m, K] from the numbers of the nearest rows [m, k_max], in order of distance."""
        position = np.arange(neighbors.shape[1])
        counted = position < self.k[neighbors[:, 0]][:, None]  # as many as the nearest one needs
        rows = np.repeat(np.arange(len(neighbors)), neighbors.shape[1])
        classes = self.labels[neighbors]
        votes = np.zeros((len(neighbors), self.n_classes))
        np.add.at(votes, (rows, classes.ravel()), np.where(counted, 1 / self.k[neighbors], 0.0).ravel())
        # Of tied classes the one met first wins.
        tied = np.isclose(votes, votes.max(axis=1, keepdims=True), rtol=1e-9, atol=0)
        leads = np.take_along_axis(tied, classes, axis=1) & counted
        winner = classes[np.arange(len(classes)), leads.argmax(axis=1)]
        votes[np.arange(len(votes)), winner] *= 1 + _FIRST
        out: npt.NDArray[np.float64] = votes / votes.sum(axis=1, keepdims=True)
        return out

    def arrays(self) -> Arrays:
        return {"x": self.x, "labels": self.labels, "k": self.k, "n_classes": np.array([self.n_classes])}

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> Self:
        return cls(arrays["x"], arrays["labels"], arrays["k"], int(arrays["n_classes"][0]))


def adaptive_k(around: Integers, labels: Integers, k_min: int, k_max: int, n_classes: int) -> Integers:
    """Return the fewest neighbors, odd from k_min on, whose majority is the row's label; k_max where none is.

    The smallest of tied classes is the majority. Shapes: labels of neighbors [n, k_max], labels [n] -> [n].

    >>> around = np.array([[0, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]])
    >>> adaptive_k(around, np.array([0, 0]), 1, 7, 2), adaptive_k(around, np.array([1, 1]), 1, 7, 2)
    (array([1, 7]), array([3, 1]))
    """
    out = np.full(len(labels), k_max, dtype=np.int64)
    size = max(1, _COUNTS // (k_max * n_classes))
    for start in range(0, len(labels), size):
        own = labels[start : start + size]
        votes = np.cumsum(np.eye(n_classes, dtype=np.int32)[around[start : start + size]], axis=1)
        agrees = votes[:, k_min - 1 : k_max - 2 : 2].argmax(axis=2) == own[:, None]  # k_max itself is never asked
        found = agrees.any(axis=1)
        out[start : start + size][found] = k_min + 2 * agrees[found].argmax(axis=1)
    return out


def _nearest(x: Floats, rows: Floats | None, count: int) -> Integers:
    """Numbers [m, count] of the rows of x nearest to given rows, nearest first; without rows, to each row of x but
    itself."""
    from sklearn.neighbors import NearestNeighbors  # lists of methods do not wait for it

    index: Any = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(x)
    found: Integers = index.kneighbors(rows, return_distance=False)
    return found
