"""Learning rate over the whole run, stages included: one curve, no restart."""

from __future__ import annotations

import math
from typing import Literal


def learning_rate(
    schedule: Literal["cosine-7-16", "cosine", "constant"], *, peak: float, step: int, total: int
) -> float:
    """The rate of step `step` of `total`.

    "cosine-7-16" is η·cos(7πt/16T), as FixMatch and PARS use it: it ends at 0.195 η, not at 0.

    >>> round(learning_rate("cosine-7-16", peak=0.03, step=100, total=100), 5)
    0.00585
    """
    t = step / max(1, total)
    match schedule:
        case "cosine-7-16":
            return peak * math.cos(7 * math.pi * t / 16)
        case "cosine":
            return peak * (1 + math.cos(math.pi * t)) / 2
        case "constant":
            return peak
