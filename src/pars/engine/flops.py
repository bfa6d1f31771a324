"""What a row costs in floating-point operations, by torch's own counter."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True)
class RowCost:
    """FLOP per row of a forward alone, and of a forward with its backward."""

    forward: float
    training: float


def row_cost(module: nn.Module, example: Tensor) -> RowCost:
    """Count once for a network and an input shape; `example` is [B, ...] with B >= 2 for BatchNorm's sake."""
    probe = copy.deepcopy(module).train()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        probe(example)
    forward = counter.get_total_flops()
    with FlopCounterMode(display=False) as counter:
        probe(example).sum().backward()
    return RowCost(forward / len(example), counter.get_total_flops() / len(example))
