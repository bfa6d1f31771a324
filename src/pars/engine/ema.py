"""Exponential moving average of weights, for evaluation and as a teacher."""

from __future__ import annotations

import copy

import torch
from torch import nn


def make_average(module: nn.Module) -> nn.Module:
    """A copy of a network that will hold its averaged weights; always in evaluation mode, never given a gradient."""
    average = copy.deepcopy(module).eval()
    return average.requires_grad_(False)


def decay_at(step: int, *, decay: float, ramp: bool) -> float:
    """The decay of step `step` (from 0). A ramp lets the average follow the first, fast steps."""
    return min(decay, (1 + step) / (10 + step)) if ramp else decay


@torch.no_grad()
def update_average(average: nn.Module, module: nn.Module, decay: float) -> None:
    """θ̄ ← m·θ̄ + (1-m)·θ; buffers (BatchNorm statistics) are copied, as FixMatch does."""
    torch._foreach_lerp_(list(average.parameters()), [p.detach() for p in module.parameters()], 1 - decay)
    for kept, current in zip(average.buffers(), module.buffers(), strict=True):
        kept.copy_(current)
