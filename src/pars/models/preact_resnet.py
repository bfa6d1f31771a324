"""The "PreAct ResNet-18" of the noisy-label literature (DivideMix, ELR+, AugDesc, M-correction, PARS).

It differs from He et al. 2016 (arXiv:1603.05027): BatchNorm and ReLU follow the stem, and the final BatchNorm and ReLU
are missing. The published numbers come from this network.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from pars.models.backbone import Backbone, image_shape


class PreActBlock(nn.Module):
    """BN-ReLU-conv-BN-ReLU-conv plus shortcut. Shapes: [B, c_in, H, W] -> [B, c_out, H/stride, W/stride]."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(c_in)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1, bias=False)
        self.shortcut: nn.Conv2d | None = None
        if stride != 1 or c_in != c_out:
            self.shortcut = nn.Conv2d(c_in, c_out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        activated = F.relu(self.bn1(x))
        # A shortcut convolution reads the activated input; the identity shortcut carries the raw one.
        carried = x if self.shortcut is None else self.shortcut(activated)
        out: Tensor = self.conv2(F.relu(self.bn2(self.conv1(activated))))
        return out + carried


class PreActResNet18(Backbone):
    """Stem, four stages of two blocks (w, 2w, 4w, 8w; strides 1, 2, 2, 2), average pool, linear.

    Shapes: [B, C, H, W] -> features [B, 8w] -> logits [B, K]. 11.2 million parameters at w = 64.
    The last map of a 32-pixel image is 4×4, where the global pool used here equals the 4×4 pool of the original.

    >>> import torch
    >>> net = PreActResNet18((3, 32, 32), n_classes=10, width=8)
    >>> net.features(torch.zeros(2, 3, 32, 32)).shape, net(torch.zeros(2, 3, 32, 32)).shape
    (torch.Size([2, 64]), torch.Size([2, 10]))
    """

    def __init__(self, input_shape: tuple[int, ...], n_classes: int, *, width: int = 64) -> None:
        super().__init__()
        channels, _, _ = image_shape("preact_resnet18", input_shape, smallest=8)
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        blocks: list[nn.Module] = []
        c_in = width
        for c_out, stride in ((width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)):
            blocks += [PreActBlock(c_in, c_out, stride), PreActBlock(c_out, c_out, 1)]
            c_in = c_out
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(c_in, n_classes)

    def features(self, x: Tensor) -> Tensor:
        maps: Tensor = self.blocks(self.stem(x))
        return maps.mean(dim=(2, 3))
