"""From samples to network input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Normalise:
    """uint8 images to float32, (x/255 - mean) / std per channel, in channels_last memory format.

    Shapes: [n, C, H, W] -> [n, C, H, W].

    >>> Normalise(mean=(0.5,), std=(0.25,))(torch.tensor([[[[0, 255]]]], dtype=torch.uint8))
    tensor([[[[-2.,  2.]]]])
    """

    mean: tuple[float, ...]  # per channel, in units of 0..1
    std: tuple[float, ...]

    def __call__(self, x: Tensor) -> Tensor:
        scale = torch.tensor([1 / (255 * s) for s in self.std], device=x.device)[:, None, None]
        shift = torch.tensor([-m / s for m, s in zip(self.mean, self.std, strict=True)], device=x.device)[:, None, None]
        # Turning to channels_last after the arithmetic, not with it, is three times faster on a CPU (measured).
        return x.to(torch.float32).mul_(scale).add_(shift).contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class AsFloat:
    """Feature vectors are network input already."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.to(torch.float32)
