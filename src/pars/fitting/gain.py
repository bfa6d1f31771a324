"""Did it help? Two classifiers compared on held-out rows whose labels may be wrong themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]
Verdict = Literal["helped", "hurt", "inconclusive"]
Z = 1.96  # of a 95 % interval
LEAST_SLOPE = 0.1  # of agreement over accuracy: below it, chance is magnified more than tenfold


@dataclass(frozen=True)
class Gain:
    """Accuracies of the robust and the plain classifier in 0..1, their difference and its 95 % interval."""

    rows: int
    robust: float
    plain: float
    gain: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        if self.low > 0:
            return "helped"
        return "hurt" if self.high < 0 else "inconclusive"


def gain(robust: Labels, plain: Labels, labels: Labels) -> Gain:
    """Compare two predictions of the same rows, row by row. Shapes: all [n].

    The interval is that of the mean of paired differences, with half a row added to each cell of the table of right and
    wrong, so that a handful of rows without a single difference does not look certain (Agresti & Min 2005).

    >>> import numpy as np
    >>> y = np.arange(100) % 2
    >>> found = gain(y, np.where(np.arange(100) < 20, 1 - y, y), y)
    >>> found.robust, found.plain, round(found.gain, 2), found.verdict
    (1.0, 0.8, 0.2, 'helped')
    """
    right, other = robust == labels, plain == labels
    n, better, worse = len(labels), int((right & ~other).sum()), int((other & ~right).sum())
    b, c, m = better + 0.5, worse + 0.5, n + 2
    middle, half = (b - c) / m, Z * math.sqrt((b + c) / m - ((b - c) / m) ** 2) / math.sqrt(m)
    return Gain(n, float(right.mean()), float(other.mean()), (better - worse) / n, middle - half, middle + half)


def noise_corrected(measured: Gain, noise_rate: float, n_classes: int) -> Gain | None:
    """The gain on right labels, estimated from one on labels of which `noise_rate` are wrong; None where too many are.

    If wrong labels are spread evenly over the other classes, a classifier of accuracy a agrees with
    a (1 - ε) + (1 - a) ε/(K-1) of them. That is a straight line in a: solved for a, it gives the accuracy on right
    labels, and differences grow by the same factor. Who is better does not change, only by how much.

    >>> measured = Gain(rows=1000, robust=0.5, plain=0.4, gain=0.1, low=0.05, high=0.15)
    >>> clean = noise_corrected(measured, noise_rate=0.45, n_classes=10)
    >>> assert clean is not None
    >>> round(clean.robust, 3), round(clean.gain, 3), round(clean.low, 3)
    (0.9, 0.2, 0.1)
    """
    floor = noise_rate / (n_classes - 1)
    slope = 1 - noise_rate - floor
    if slope < LEAST_SLOPE:
        return None

    def accuracy(agreement: float) -> float:
        return min(1.0, max(0.0, (agreement - floor) / slope))

    def difference(measured: float) -> float:
        return min(1.0, max(-1.0, measured / slope))

    robust, plain = accuracy(measured.robust), accuracy(measured.plain)
    return Gain(measured.rows, robust, plain, robust - plain, difference(measured.low), difference(measured.high))
