"""What a network costs in floating-point operations, by torch's own counter."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

PFLOP = 1e15


@dataclass(frozen=True)
class NetworkCost:
    """FLOP per row of a forward alone and of a forward with its backward, and per step of an update of the weights."""

    forward: float
    training: float
    update: float = 0.0  # nothing but what Muon multiplies counts: the rest is a thousandth of a step


def network_cost(module: nn.Module, example: Tensor, update: float = 0.0) -> NetworkCost:
    """Count once for a network and an input shape; `example` is [B, ...] with B >= 2 for BatchNorm's sake."""
    probe = copy.deepcopy(module).train()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        probe(example)
    forward = counter.get_total_flops()
    with FlopCounterMode(display=False) as counter:
        probe(example).sum().backward()
    return NetworkCost(forward / len(example), counter.get_total_flops() / len(example), update)


def fits(flop: float, budget: float) -> bool:
    """Whether so many FLOP are within a budget in PFLOP; sums in another order may differ in their last digits.

    >>> fits(3e14, 0.3), fits(3.01e14, 0.3)
    (True, False)
    """
    return flop <= budget * PFLOP * (1 + 1e-9)
