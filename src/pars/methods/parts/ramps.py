"""How the weight of a loss grows over a share of a run or of a stage."""

from __future__ import annotations

import math


def linear_ramp(progress: float, share: float) -> float:
    """Return 0 to 1, reached after this share; 1 without one.

    >>> linear_ramp(0.1, 0.4), linear_ramp(0.5, 0.4), linear_ramp(0.0, 0.0)
    (0.25, 1.0, 1.0)
    """
    return min(1.0, progress / share) if share else 1.0


def sigmoid_ramp(progress: float, share: float) -> float:
    """Return exp(-5(1-u)²), u growing from 0 to 1 over this share (Laine & Aila 2017).

    >>> round(sigmoid_ramp(0.0, 0.4), 4), sigmoid_ramp(0.4, 0.4)
    (0.0067, 1.0)
    """
    return math.exp(-5 * (1 - linear_ramp(progress, share)) ** 2)
