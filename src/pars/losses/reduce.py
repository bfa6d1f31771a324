"""Reductions over the *global* batch: the rows of all processes together. The only place that knows of processes.

Under `torchrun` every process sees a part of the batch, and DDP averages the processes' gradients. The functions here
return the same value on every process, that of the whole batch, with a gradient such that DDP's average is the
gradient of the whole batch in one process. What is computed *from* them must be the same on every process, which it is
for sums and products of such values (λ · mean + …) and for `class_balance`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


def mean(values: Tensor, mask: Tensor | None = None, *, min_share: float = 0.0) -> Tensor:
    """Return the mean of the values where `mask` is true, over all processes; 0 with zero gradient if there are none.

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
    rows = _over_processes(torch.full((), float(len(values)), device=values.device)).clamp_min(1)
    if mask is None:
        return _over_processes(values.sum()) / rows
    total = _over_processes(torch.where(mask, values, 0.0).sum())  # no indexing: shapes stay the same each step
    return total / torch.maximum(_over_processes(mask.sum().float()).clamp_min(1), min_share * rows)


def mean_probabilities(probs: Tensor) -> Tensor:
    """Return the mean prediction over all processes, differentiable. Shapes: probs [B, K] -> [K].

    >>> mean_probabilities(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    tensor([0.7500, 0.2500])
    """
    probs = probs.float()
    rows = _over_processes(torch.full((), float(len(probs)), device=probs.device)).clamp_min(1)
    return _over_processes(probs.sum(dim=0)) / rows


def _over_processes(local: Tensor) -> Tensor:
    """The sum of a tensor over all processes; the tensor itself where there is only one."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return local
    from pars.losses.sum_over_processes import SumOverProcesses  # a subclass of torch's: it imports torch

    result: Tensor = SumOverProcesses.apply(local)  # type: ignore[no-untyped-call]
    return result
