"""A sum over processes that gradients flow through. In a file of its own because it cannot be defined without torch."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class SumOverProcesses(torch.autograd.Function):
    """All-reduce whose gradient undoes DDP's division.

    L depends on S = Σ_r s_r, so dL/ds_r = dL/dS on every process r, and the true gradient is Σ_r dL/dS · ds_r/dθ.
    DDP takes the mean over the W processes, hence the factor W.
    """

    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        total = local.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (gradient,) = gradients
        return gradient * dist.get_world_size()
