"""Did it help? Two classifiers compared on held-out rows whose labels may be wrong themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]
Verdict = Literal["helped", "hurt", "no difference seen"]
Z = 1.96  # of a 95 % interval
LEAST_SLOPE = 0.1  # of agreement over accuracy: below it, a row's luck counts as ten


@dataclass(frozen=True)
class Gain:
    """Accuracies of two classifiers in 0..1, by how much the first is better, and a 95 % interval of that."""

    rows: int
    first: float
    second: float
    gain: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        if self.low > 0:
            return "helped"
        return "hurt" if self.high < 0 else "no difference seen"


def gain(first: Labels, second: Labels, labels: Labels) -> Gain:
    """Compare two predictions of the same rows, row by row. Shapes: all [n].

    The interval is that of the mean of paired differences, with half a row added to each cell of the table of right and
    wrong, so that a handful of rows without a single difference does not look certain (Agresti & Min 2005).

    >>> import numpy as np
    >>> y = np.arange(100) % 2
    >>> found = gain(y, np.where(np.arange(100) < 20, 1 - y, y), y)
    >>> found.first, found.second, round(found.gain, 2), found.verdict
    (1.0, 0.8, 0.2, 'helped')
    """
    right, other = first == labels, second == labels
    n, better, worse = len(labels), int((right & ~other).sum()), int((other & ~right).sum())
    b, c, m = better + 0.5, worse + 0.5, n + 2
    middle, half = (b - c) / m, Z * math.sqrt((b + c) / m - ((b - c) / m) ** 2) / math.sqrt(m)
    return Gain(n, float(right.mean()), float(other.mean()), (better - worse) / n, middle - half, middle + half)


def despite_noise(seen: Gain, noise_rate: float, n_classes: int) -> Gain | None:
    """What a comparison on labels of which `noise_rate` are wrong says about right ones; none where that is too little.

    If wrong labels are spread evenly over the other classes, a classifier of accuracy a agrees with
    a (1 - ε) + (1 - a) ε/(K-1) of them. That is a straight line in a: solved for a, it gives the accuracy on right
    labels, and differences grow by the same factor. Who is better does not change, only by how much.

    >>> seen = Gain(rows=1000, first=0.5, second=0.4, gain=0.1, low=0.05, high=0.15)
    >>> clean = despite_noise(seen, noise_rate=0.45, n_classes=10)
    >>> assert clean is not None
    >>> round(clean.first, 3), round(clean.gain, 3), round(clean.low, 3)
    (0.9, 0.2, 0.1)
    """
    floor = noise_rate / (n_classes - 1)
    slope = 1 - noise_rate - floor
    if slope < LEAST_SLOPE:
        return None

    def accuracy(agreement: float) -> float:
        return min(1.0, max(0.0, (agreement - floor) / slope))

    def difference(seen: float) -> float:
        return min(1.0, max(-1.0, seen / slope))

    first, second = accuracy(seen.first), accuracy(seen.second)
    return Gain(seen.rows, first, second, first - second, difference(seen.low), difference(seen.high))
