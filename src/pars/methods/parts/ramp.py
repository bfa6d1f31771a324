"""Weights that grow in the course of a stage."""

from __future__ import annotations


def ramp_up(progress: float, length: float) -> float:
    """A weight that grows from 0 to 1 while progress grows from 0 to `length`; of no length, it is 1.

    >>> ramp_up(0.25, 0.5), ramp_up(0.75, 0.5), ramp_up(0.0, 0.0)
    (0.5, 1.0, 1.0)
    """
    return min(1.0, progress / length) if length else 1.0
