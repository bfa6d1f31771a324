"""Exponential moving average of weights, for evaluation and as a teacher."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def make_average(module: nn.Module) -> nn.Module:
    """A copy of a network that will hold its averaged weights; always in evaluation mode, never given a gradient."""
    average = copy.deepcopy(module).eval()
    return average.requires_grad_(False)


def decay_at(step: int, *, decay: float, ramp: bool) -> float:
    """The decay of step `step` (from 0). A ramp lets the average follow the first, fast steps."""
    return min(decay, (1 + step) / (10 + step)) if ramp else decay


@torch.no_grad()
def update_average(average: tuple[Tensor, ...], weights: tuple[Tensor, ...], decay: float) -> None:
    """θ̄ ← m·θ̄ + (1-m)·θ, parameter by parameter. Buffers (BatchNorm statistics) are left to `calibrate`."""
    torch._foreach_lerp_(list(average), list(weights), 1 - decay)


@torch.no_grad()
def calibrate(average: nn.Module, batches: Iterable[Tensor]) -> None:
    """Measure BatchNorm's statistics anew, over batches of network inputs.

    Averaged weights have smaller activations than the weights they are the average of. With the latter's statistics, as
    FixMatch copies them, they lose up to six points of accuracy while the learning rate is high (docs/method.md).
    """
    norms = [m for m in average.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum, norm.training = None, True  # no momentum: the plain mean over all batches
    try:
        for batch in batches:
            average(batch)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum, norm.training = momentum, False
