"""BatchNorm whose statistics are those of the rows of all processes, for CPUs: torch's own works on GPUs only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm


class SynchronizedBatchNorm(_BatchNorm):
    """BatchNorm over the batch that the processes hold together. Shapes: [B, C] or [B, C, ...], C channels."""

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
        found: tuple[Tensor, Tensor, Tensor, Tensor]
        found = _Normalize.apply(input, self.weight, self.bias, self.eps)  # type: ignore[no-untyped-call]
        output, mean, variance, count = found
        if self.training and self.track_running_stats and self.running_mean is not None:
            self._update(mean, variance * count / (count - 1))
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


class _Normalize(torch.autograd.Function):
    """(x - mean) / √(var + ε) · weight + bias. Mean and variance are computed one after the other, so none is lost."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, ...]:
        sums = torch.cat([_per_channel(x), x.new_tensor([x.numel() / x.shape[1]])])
        distributed.all_reduce(sums)
        count = sums[-1]
        if count <= 1:
            raise ValueError("Expected more than 1 value per channel when training")
        mean = sums[:-1] / count
        centered = x - _as(mean, x)
        squares = _per_channel(centered.square())
        distributed.all_reduce(squares)
        variance = squares / count
        scale = (variance + eps).rsqrt()
        normalized = centered * _as(scale, x)
        ctx.save_for_backward(normalized, scale, weight, count)
        ctx.has_bias = bias is not None
        output = normalized if weight is None else normalized * _as(weight, x)
        output = output if bias is None else output + _as(bias, x)
        ctx.mark_non_differentiable(mean, variance, count)
        return output, mean, variance, count

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        normalized, scale, weight, count = ctx.saved_tensors
        own_bias, own_weight = _per_channel(gradient), _per_channel(gradient * normalized)
        sums = torch.cat([own_bias, own_weight])
        distributed.all_reduce(sums)
        of_bias, of_weight = torch.split(sums, len(own_bias))
        inner = gradient - _as(of_bias / count, gradient) - normalized * _as(of_weight / count, gradient)
        factor = scale if weight is None else scale * weight
        # Weight and bias: of the own rows, as for every other parameter; gradients are added up later.
        return (
            inner * _as(factor, gradient),
            None if weight is None else own_weight,
            own_bias if ctx.has_bias else None,
            None,
        )


def _per_channel(x: Tensor) -> Tensor:
    return x.sum(dim=[0, *range(2, x.dim())])


def _as(values: Tensor, x: Tensor) -> Tensor:
    """Values [C] in a shape that goes with x [B, C, ...]."""
    return values.view(1, -1, *[1] * (x.dim() - 2))


def synchronize_batch_norm(module: nn.Module) -> nn.Module:
    """Replace every BatchNorm of a network by a `SynchronizedBatchNorm` with the same parameters and statistics."""
    if isinstance(module, _BatchNorm) and not isinstance(module, SynchronizedBatchNorm):
        twin = SynchronizedBatchNorm(
            module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats
        )
        twin.train(module.training)
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(twin, name, getattr(module, name))
        return twin
    for name, child in module.named_children():
        module.add_module(name, synchronize_batch_norm(child))
    return module
