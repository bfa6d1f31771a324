"""BatchNorm whose statistics are those of the rows of all processes, for CPUs: torch's own works on GPUs only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

Gather = Callable[[Tensor], Tensor]
"""Returns the tensors [...] of all processes, stacked by rank: [processes, ...]."""


class SynchronizedBatchNorm(_BatchNorm):
    """BatchNorm over the batch that the processes hold together. Shapes: [B, C] or [B, C, ...], C channels.

    Processes exchange once forward, means and squared deviations, and once backward. The rest is done by torch's own
    kernels, in the mode in which they are given statistics. Inside torch.func it is an ordinary BatchNorm: whoever
    passes rows through a network there (MLNT) passes those of the whole batch.
    """

    gather: Gather

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2 dimensions, got {input.dim()}")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        by_batch = self.training or self.running_mean is None
        if not by_batch:
            return F.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        if torch._C._are_functorch_transforms_active():
            mean_and_variance = (self.running_mean, self.running_var) if self.track_running_stats else (None, None)
            return F.batch_norm(input, *mean_and_variance, self.weight, self.bias, True, self.momentum or 0.0, self.eps)
        with torch.no_grad():
            mean, variance, count = _statistics(input, self.gather)
        if self.training and self.track_running_stats and self.running_mean is not None:
            self._update(mean, variance * (count / (count - 1)))
        output: Tensor = _Normalize.apply(  # type: ignore[no-untyped-call]
            input, self.weight, self.bias, mean, variance, count, self.eps, self.gather
        )
        return output

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean), share)
        self.running_var.lerp_(variance.to(self.running_var), share)


def _statistics(x: Tensor, gather: Gather) -> tuple[Tensor, Tensor, int]:
    """Mean and variance [C] per channel over the rows of all processes, and the number of values in a channel.

    Each process measures deviations from its own mean, so that none is lost where the mean is large (Chan et al.).
    """
    n = x.numel() // x.shape[1]
    # With momentum 1 and statistics of 0 before, this is the mean and the biased variance of these rows.
    mean, variance = torch.batch_norm_update_stats(x, None, None, 1.0)
    every = gather(torch.stack([mean, variance, torch.full_like(mean, n)])).double()
    means, variances, counts = every.unbind(1)  # [processes, C] each
    count = int(counts[:, 0].sum())
    if count <= 1:
        raise ValueError("Expected more than 1 value per channel when training")
    shares = counts / count
    joint = (shares * means).sum(0)
    spread = (shares * (variances + (means - joint).square())).sum(0)
    return joint.to(x.dtype), spread.to(x.dtype), count


class _Normalize(torch.autograd.Function):
    """(x - mean) / √(var + ε) · weight + bias, mean and variance being functions of x in all processes."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        variance: Tensor,
        count: int,
        eps: float,
        gather: Gather,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, variance)
        ctx.has_bias, ctx.count, ctx.eps, ctx.gather = bias is not None, count, eps, gather
        return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, eps)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, variance = ctx.saved_tensors
        scale = (variance + ctx.eps).rsqrt()
        # Σ g·(x - mean)·scale and Σ g per channel, the gradients of weight and bias for given statistics
        _, by_weight, by_bias = torch.ops.aten.native_batch_norm_backward(
            gradient, x, weight, mean, variance, None, None, False, ctx.eps, [False, True, True]
        )
        of_weight, of_bias = ctx.gather(torch.stack([by_weight, by_bias])).sum(0) / ctx.count
        # By x: f·(g - mean g - n·mean(g·n)), n = (x - mean)·scale, f = scale·weight; as f·g + a·x + b.
        factor = scale if weight is None else scale * weight
        a = -factor * scale * of_weight
        by_x = F.batch_norm(x, mean, torch.ones_like(mean), a, -factor * of_bias, False, 0.0, 0.0)
        by_x = by_x.addcmul_(gradient, factor.view(1, -1, *[1] * (x.dim() - 2)))
        # Weight and bias: of the own rows, as for every other parameter; gradients are added up later.
        return by_x, None if weight is None else by_weight, by_bias if ctx.has_bias else None, *[None] * 5


def synchronize_batch_norm(module: nn.Module, gather: Gather) -> nn.Module:
    """Replace every BatchNorm of a network by a `SynchronizedBatchNorm` with the same parameters and statistics."""
    if isinstance(module, _BatchNorm) and not isinstance(module, SynchronizedBatchNorm):
        twin = SynchronizedBatchNorm(
            module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats
        )
        twin.gather = gather
        twin.train(module.training)
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(twin, name, getattr(module, name))
        return twin
    for name, child in module.named_children():
        module.add_module(name, synchronize_batch_norm(child, gather))
    return module
