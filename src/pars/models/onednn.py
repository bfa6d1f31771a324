"""Linear layers whose products are computed by oneDNN in place of torch's BLAS.

torch's BLAS on x86 is Intel's, which uses half of the width of an AMD processor's vectors; oneDNN uses all of it. The
result is equal up to rounding, and FLOP are counted the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.flop_counter import register_flop_formula

LEAST_WEIGHTS = 2**15  # of a layer: below, looking up the routine takes longer than the product
_multiply: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)


class OneDNNLinear(nn.Linear):
    """nn.Linear in float32 by oneDNN; as torch computes it where that does not apply.

    That is: another device or precision, few weights, an empty batch, inside torch.func, a torch without oneDNN.
    Shapes: [B, in] -> [B, out].
    """

    def forward(self, x: Tensor) -> Tensor:
        supported = x.device.type == "cpu" and x.dtype == self.weight.dtype == torch.float32 and x.ndim == 2
        large = self.weight.numel() >= LEAST_WEIGHTS and len(x) > 0
        if _multiply is None or not (supported and large) or torch._C._are_functorch_transforms_active():
            return super().forward(x)
        found: Tensor = _Product.apply(x, self.weight)  # type: ignore[no-untyped-call]
        return found if self.bias is None else found + self.bias


class _Product(torch.autograd.Function):
    """x Wᵀ."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x, of_weight = ctx.needs_input_grad
        # With a small batch, oneDNN takes twice as long for a transposed view as for a copy.
        return (
            product(gradient, weight.t()) if of_x else None,
            product(gradient.t().contiguous(), x.t()) if of_weight else None,
        )


def product(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ; x [m, k] and W [n, k] may be transposed views."""
    found: Tensor = _multiply(x, weight, None, "none", [], "")
    return found


def _flop(x: torch.Size, weight: torch.Size, *_: Any, **__: Any) -> int:
    return 2 * x[0] * x[1] * weight[0]


if _multiply is not None:
    register_flop_formula(_multiply)(_flop)
