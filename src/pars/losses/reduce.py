"""Reductions over a batch: means of the rows that a loss is about.

Where several processes train together, each computes the losses of the whole batch (`pars.engine.Processes`), so there
is nothing here about them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


def mean(values: Tensor, mask: Tensor | None = None, *, min_share: float = 0.0) -> Tensor:
    """Return the mean of the values where `mask` is true; 0 with zero gradient if there are none.

    Shapes: values [B], mask [B] bool -> scalar.
    The divisor is max(#kept, min_share · #all rows): 0 is the subset's own mean, 1 the share of the batch mean that
    the subset contributes; between them, a handful of rows cannot rule a step.

    >>> losses = torch.tensor([1.0, 2.0, 6.0, 1.0])
    >>> mean(losses), mean(losses, losses > 1), mean(losses, losses > 9)
    (tensor(2.5000), tensor(4.), tensor(0.))
    >>> mean(losses, losses > 2, min_share=0.5), mean(losses, losses > 2, min_share=1.0)
    (tensor(3.), tensor(1.5000))
    """
    values = values.float()
    rows = torch.full((), float(max(1, len(values))), device=values.device)
    if mask is None:
        return values.sum() / rows
    total = torch.where(mask, values, 0.0).sum()  # no indexing: shapes stay the same each step
    return total / torch.maximum(mask.sum().float().clamp_min(1), min_share * rows)


def mean_probabilities(probs: Tensor) -> Tensor:
    """Return the mean prediction, differentiable. Shapes: probs [B, K] -> [K].

    >>> mean_probabilities(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    tensor([0.7500, 0.2500])
    """
    return probs.float().sum(dim=0) / max(1, len(probs))
