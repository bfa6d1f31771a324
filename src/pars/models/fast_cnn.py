"""A network made for accuracy per floating-point operation: airbench's (Jordan 2024, arXiv:2404.00498)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from pars.models.backbone import Backbone, image_shape
from pars.models.whitening import Signs, Whitening
from pars.models.winograd import WinogradConv2d

Convolution = Literal["direct", "winograd"]

SMALLEST_MAP = 3  # positions a side that pooling leaves at least: 8×8 digits are pooled once
LOGIT_SCALE = 1 / 9  # airbench's: logits that begin small


class FastCNN(Backbone):
    """Frozen whitening, three blocks of widths (w, 4w, 4w), the largest value of each map, linear, scaled logits.

    A block is conv-pool-BN-GELU-conv-BN-GELU. Of airbench's it lacks the tuned initial weights (identity convolutions),
    the fixed BatchNorm scales and the learning rates of single layers: such things belong to a recipe.
    Shapes: [B, C, H, W] -> features [B, 4w] -> logits [B, K]. A forward of a 32×32 color image takes 66 MFLOP
    at w = 32 and 236 at w = 64; with whitening filters of one sign 59 and 223.

    >>> import torch
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
        logit_scale: float = LOGIT_SCALE,
    ) -> None:
        super().__init__()
        channels, height, width_px = image_shape("fast_cnn", input_shape, smallest=8)
        self.whitening = Whitening(channels, signs=signs)
        c_in, side = len(self.whitening.bias), min(height, width_px) - 1
        layers: list[nn.Module] = [nn.GELU()]
        for c_out in (width, 4 * width, 4 * width):
            pooled = side // 2 >= SMALLEST_MAP
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
    """A linear layer without bias whose output is multiplied by a fixed number. Shapes: [B, d] -> [B, K]."""

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
    if convolution == "winograd":  # pools itself; what stands in the pool's place keeps the names of the weights
        return [WinogradConv2d(c_in, c_out, pool=pooled), *([nn.Identity()] if pooled else [])]
    return [nn.Conv2d(c_in, c_out, 3, padding=1, bias=False), *([nn.MaxPool2d(2)] if pooled else [])]
