"""A network designed for accuracy per FLOP: airbench's (Jordan 2024, arXiv:2404.00498), with its whitening layer."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pars.models.backbone import Backbone, image_shape
from pars.models.winograd import WinogradConv2d

Convolution = Literal["direct", "winograd"]
Signs = Literal["both", "one"]

WHITENING_EPS = 5e-4  # airbench's; keeps directions of less variance than this quieter than the others
_PATCH = 2  # side of a whitened patch, in pixels
_SMALLEST_MAP = 3  # side below which maps are not pooled: 8×8 digits are pooled once
_LOGIT_SCALE = 1 / 9  # airbench's; logits start small


class FastCNN(Backbone):
    """Frozen whitening, three blocks of widths (w, 4w, 4w), global max pool, linear, scaled logits.

    A block is conv-pool-BN-GELU-conv-BN-GELU. Not included from airbench, because it belongs to a training recipe: the
    initialization (identity convolutions), the fixed BatchNorm scales and the learning rates per layer.
    Shapes: [B, C, H, W] -> features [B, 4w] -> logits [B, K]. A forward of a 32×32 color image takes 66 MFLOP
    at w = 32 and 236 at w = 64; with whitening filters of one sign 59 and 223.

    >>> net = FastCNN((3, 32, 32), n_classes=10)
    >>> net.features(torch.zeros(2, 3, 32, 32)).shape, net(torch.zeros(2, 3, 32, 32)).shape
    (torch.Size([2, 128]), torch.Size([2, 10]))
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        n_classes: int,
        *,
        width: int = 32,
        signs: Signs = "both",
        convolution: Convolution = "direct",
        logit_scale: float = _LOGIT_SCALE,
    ) -> None:
        super().__init__()
        channels, height, width_px = image_shape("fast_cnn", input_shape, smallest=8)
        self.whitening = Whitening(channels, signs=signs)
        c_in, side = len(self.whitening.bias), min(height, width_px) - 1
        layers: list[nn.Module] = [nn.GELU()]
        for c_out in (width, 4 * width, 4 * width):
            pooled = side // 2 >= _SMALLEST_MAP
            layers += _block(c_in, c_out, pooled, convolution)
            side = side // 2 if pooled else side
            c_in = c_out
        self.blocks = nn.Sequential(*layers)
        self.head = ScaledLinear(c_in, n_classes, scale=logit_scale)

    def features(self, x: Tensor) -> Tensor:
        maps: Tensor = self.blocks(self.whitening(x))
        return maps.amax(dim=(2, 3))

    def fit_statistics(self, inputs: Tensor) -> None:
        self.whitening.fit(inputs)


class ScaledLinear(nn.Linear):
    """A linear layer without bias whose output is multiplied by a constant. Shapes: [B, d] -> [B, K]."""

    def __init__(self, d_in: int, d_out: int, *, scale: float) -> None:
        super().__init__(d_in, d_out, bias=False)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.scale


def _block(c_in: int, c_out: int, pooled: bool, convolution: Convolution) -> list[nn.Module]:
    return [
        *_conv(c_in, c_out, pooled, convolution),
        nn.BatchNorm2d(c_out),
        nn.GELU(),
        *_conv(c_out, c_out, False, convolution),
        nn.BatchNorm2d(c_out),
        nn.GELU(),
    ]


def _conv(c_in: int, c_out: int, pooled: bool, convolution: Convolution) -> list[nn.Module]:
    if convolution == "winograd":  # pools by itself; the Identity keeps the names of the weights the same
        return [WinogradConv2d(c_in, c_out, pool=pooled), *([nn.Identity()] if pooled else [])]
    return [nn.Conv2d(c_in, c_out, 3, padding=1, bias=False), *([nn.MaxPool2d(2)] if pooled else [])]


class Whitening(nn.Module):
    """A frozen 2×2 convolution that decorrelates neighboring pixels (tysam-code/hlb-CIFAR10, airbench).

    It projects patches onto their principal axes, each scaled to unit variance.
    Shapes: [B, C, H, W] -> [B, 8C, H-1, W-1] with every axis and its negative, [B, 4C, H-1, W-1] with one sign.
    The filters are a buffer: saved with the weights and copied to averages, but not trained. Only the bias is trained.
    Before `fit` the filters are the identity: the pixels of the patch.

    >>> Whitening(3)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 24, 31, 31])
    """

    weight: Tensor

    def __init__(self, channels: int, *, signs: Signs = "both") -> None:
        super().__init__()
        self.signs = signs
        filters = self._signed(torch.eye(channels * _PATCH * _PATCH))
        self.register_buffer("weight", filters.view(-1, channels, _PATCH, _PATCH))
        self.bias = nn.Parameter(torch.zeros(len(filters)))

    def reset_parameters(self) -> None:
        """Reset the bias. The filters stay: they are measured on the images, not trained."""
        nn.init.zeros_(self.bias)

    @torch.no_grad()
    def fit(self, images: Tensor) -> None:
        """Set the filters from network inputs [n, C, H, W]."""
        filters = whitening_filters(patch_covariance(images).cpu())  # always the same LAPACK
        self.weight.copy_(self._signed(filters).view_as(self.weight))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias)

    def _signed(self, filters: Tensor) -> Tensor:
        """[m, d] -> [2m, d], or unchanged. With both signs a GELU loses nothing: gelu(x) - gelu(-x) = x."""
        return torch.cat([filters, -filters]) if self.signs == "both" else filters


def patch_covariance(images: Tensor, batch: int = 256) -> Tensor:
    """Return the covariance [4C, 4C], in float64, of all 2×2 patches (channel, row, column) of images [n, C, H, W]."""
    size = images.shape[1] * _PATCH * _PATCH
    total = images.new_zeros(size, dtype=torch.float64)
    products = images.new_zeros(size, size, dtype=torch.float64)
    for part in torch.split(images, batch):
        patches = F.unfold(part.double(), _PATCH).transpose(0, 1).flatten(1)  # [4C, patches]
        total += patches.sum(dim=1)
        products += patches @ patches.T
    count = len(images) * (images.shape[2] - _PATCH + 1) * (images.shape[3] - _PATCH + 1)
    mean = total / count
    return products / count - mean[:, None] * mean


def whitening_filters(covariance: Tensor, *, eps: float = WHITENING_EPS) -> Tensor:
    """Return the eigenvectors as rows, largest eigenvalue first, each divided by √(eigenvalue + eps).

    LAPACK implementations differ in the sign of an eigenvector. Here the first of its large entries is positive: the
    first that is at least half as large as the largest, because several entries may be equally large.

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
