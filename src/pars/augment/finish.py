"""From samples to network input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pars.augment.view import one_by_one
from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Normalize:
    """uint8 images to float32, (x/255 - mean) / std per channel. The memory format is the network's affair.

    Shapes: [n, C, H, W] -> [n, C, H, W].

    >>> Normalize(mean=(0.5,), std=(0.25,))(torch.tensor([[[[0, 255]]]], dtype=torch.uint8))
    tensor([[[[-2.,  2.]]]])
    """

    mean: tuple[float, ...]  # per channel, in units of 0..1
    std: tuple[float, ...]

    def __call__(self, x: Tensor) -> Tensor:
        scale = torch.tensor([1 / (255 * s) for s in self.std], device=x.device)[:, None, None]
        shift = torch.tensor([-m / s for m, s in zip(self.mean, self.std, strict=True)], device=x.device)[:, None, None]
        out = torch.empty(x.shape, device=x.device)
        for part, pixels in zip(out, x, strict=True) if one_by_one(x) else ((out, x),):
            part.copy_(pixels).mul_(scale).add_(shift)
        return out


@dataclass(frozen=True)
class AsFloat:
    """Feature vectors are network input already."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.to(torch.float32)
