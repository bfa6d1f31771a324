"""A convolutional network designed for a CPU: early pooling, then depth where the maps are small and cheap."""

from __future__ import annotations

from torch import Tensor, nn

from pars.models.backbone import Backbone, image_shape

_SMALLEST_MAP = 4  # side at which maps are no longer pooled: 8×8 digits keep 4×4 positions


class SmallCNN(Backbone):
    """Three blocks of widths (w, 2w, 4w), global average pool, linear.

    A block is conv-pool-BN-ReLU; the second and third block add conv-BN-ReLU on the pooled map. Pooling comes before
    the normalization, as in airbench (arXiv:2404.00498): a quarter of the elementwise work.
    Shapes: [B, C, H, W] -> features [B, 4w] -> logits [B, K]. 280 thousand parameters at w = 32.

    >>> import torch
    >>> net = SmallCNN((1, 8, 8), n_classes=10)
    >>> net.features(torch.zeros(2, 1, 8, 8)).shape, net(torch.zeros(2, 1, 8, 8)).shape
    (torch.Size([2, 128]), torch.Size([2, 10]))
    """

    def __init__(self, input_shape: tuple[int, ...], n_classes: int, *, width: int = 32) -> None:
        super().__init__()
        c_in, height, width_px = image_shape("small_cnn", input_shape, smallest=4)
        side = min(height, width_px)
        layers: list[nn.Module] = []
        for c_out, depth in ((width, 1), (2 * width, 2), (4 * width, 2)):
            pooled = side > _SMALLEST_MAP
            layers += _conv(c_in, c_out, pooled)
            for _ in range(depth - 1):
                layers += _conv(c_out, c_out, pooled=False)
            side = side // 2 if pooled else side
            c_in = c_out
        self.blocks = nn.Sequential(*layers)
        self.head = nn.Linear(c_in, n_classes)

    def features(self, x: Tensor) -> Tensor:
        maps: Tensor = self.blocks(x)
        return maps.mean(dim=(2, 3))


def _conv(c_in: int, c_out: int, pooled: bool) -> list[nn.Module]:
    pool: list[nn.Module] = [nn.MaxPool2d(2)] if pooled else []
    return [nn.Conv2d(c_in, c_out, 3, padding=1, bias=False), *pool, nn.BatchNorm2d(c_out), nn.ReLU()]
