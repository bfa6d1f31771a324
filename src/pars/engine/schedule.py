"""Learning rate over a run, or over a stage that has a curve of its own."""

from __future__ import annotations

import math

from pars.engine.config import TrainConfig


def learning_rate(config: TrainConfig, *, step: int, total: int) -> float:
    """The rate of step `step` of `total`.

    "cosine-7-16" is η·cos(7πt/16T), as FixMatch and PARS use it: it ends at 0.195 η, not at 0.

    >>> round(learning_rate(TrainConfig(lr=0.03), step=100, total=100), 5)
    0.00585
    >>> config = TrainConfig(lr=1.0, schedule="steps", milestones=(0.5, 0.8))
    >>> [round(learning_rate(config, step=t, total=10), 6) for t in (4, 5, 9)]
    [1.0, 0.1, 0.01]
    """
    t, peak, lowest = step / max(1, total), config.lr, config.floor * config.lr
    match config.schedule:
        case "cosine-7-16":
            return peak * math.cos(7 * math.pi * t / 16)
        case "cosine":
            return lowest + (peak - lowest) * (1 + math.cos(math.pi * t)) / 2
        case "warm-restarts":
            return lowest + (peak - lowest) * (1 + math.cos(math.pi * (t * config.cycles % 1))) / 2
        case "steps":
            return peak * config.gamma ** sum(t >= milestone for milestone in config.milestones)
        case "late-linear":
            return peak if t < config.decay_from else peak * (1 - t) / (1 - config.decay_from)
        case "constant":
            return peak


def momentum(config: TrainConfig, *, step: int, total: int) -> float:
    """Momentum, or Adam's β₁: the late value once a late-linear rate begins to fall, where there is one."""
    late = config.schedule == "late-linear" and step / max(1, total) >= config.decay_from
    return config.late_momentum if late and config.late_momentum is not None else config.momentum
