"""A frozen first layer that removes what neighboring pixels have in common (tysam-code/hlb-CIFAR10, airbench)."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Signs = Literal["both", "one"]
SIDE = 2  # of a patch, in pixels
EPS = 5e-4  # airbench's: a direction of less variance than this is not made as loud as the others


class Whitening(nn.Module):
    """A 2×2 convolution onto the principal axes of the images' patches, each scaled to unit variance.

    Shapes: [B, C, H, W] -> [B, 8C, H-1, W-1], every axis and its negative; [B, 4C, H-1, W-1] with one sign only.
    The filters are a buffer: saved with the weights, copied to averages, out of reach of optimizer and weight decay.
    Only the bias learns.
    Until `fit` has seen images the filters are those of white noise, the pixels of the patch themselves.

    >>> Whitening(3)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 24, 31, 31])
    """

    weight: Tensor

    def __init__(self, channels: int, *, signs: Signs = "both") -> None:
        super().__init__()
        self.signs = signs
        filters = self._signed(torch.eye(channels * SIDE * SIDE))
        self.register_buffer("weight", filters.view(-1, channels, SIDE, SIDE))
        self.bias = nn.Parameter(torch.zeros(len(filters)))

    def reset_parameters(self) -> None:
        """What a training that begins anew draws again: nothing, for the filters are the images', not learned."""
        nn.init.zeros_(self.bias)

    @torch.no_grad()
    def fit(self, images: Tensor) -> None:
        """Set the filters by images [n, C, H, W] as the network will see them."""
        filters = whitening_filters(patch_covariance(images).cpu())  # one LAPACK, wherever the images are
        self.weight.copy_(self._signed(filters).view_as(self.weight))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias)

    def _signed(self, filters: Tensor) -> Tensor:
        """[m, d] -> [2m, d] or itself. With both signs a GELU behind it loses nothing: gelu(x) - gelu(-x) = x."""
        return torch.cat([filters, -filters]) if self.signs == "both" else filters


def patch_covariance(images: Tensor, batch: int = 256) -> Tensor:
    """Covariance [4C, 4C], in float64, of all 2×2 patches (channel, row, column) of images [n, C, H, W]."""
    size = images.shape[1] * SIDE * SIDE
    total = images.new_zeros(size, dtype=torch.float64)
    products = images.new_zeros(size, size, dtype=torch.float64)
    for part in torch.split(images, batch):
        patches = F.unfold(part.double(), SIDE).transpose(0, 1).flatten(1)  # [4C, patches]
        total += patches.sum(dim=1)
        products += patches @ patches.T
    count = len(images) * (images.shape[2] - SIDE + 1) * (images.shape[3] - SIDE + 1)
    mean = total / count
    return products / count - mean[:, None] * mean


def whitening_filters(covariance: Tensor, *, eps: float = EPS) -> Tensor:
    """Eigenvectors as rows, largest eigenvalue first, each divided by √(eigenvalue + eps).

    An eigenvector's sign is free and every LAPACK chooses its own. Here the first of its large entries is positive:
    the first that is at least half as large as the largest, for the largest itself may be one of several equals.

    >>> whitening_filters(torch.tensor([[0.25, 0.0], [0.0, 4.0]]), eps=0.0)
    tensor([[0.0000, 0.5000],
            [2.0000, 0.0000]])
    """
    values, vectors = torch.linalg.eigh(covariance)
    values, rows = values.flip(0), vectors.T.flip(0)
    size = rows.abs()
    first = (size >= 0.5 * size.amax(dim=1, keepdim=True)).int().argmax(dim=1, keepdim=True)
    rows = rows * rows.gather(1, first).sign()
    out: Tensor = rows / (values.clamp_min(0) + eps).sqrt()[:, None]
    return out
