"""Image networks of timm, transformers and packages as backbones to be trained: `timm:NAME`, `hf:NAME`, `lite0`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pars.errors import UserError, one_line
from pars.models.backbone import Backbone, image_shape
from pars.models.pretrained import (
    LITE0_MEAN,
    LITE0_STD,
    Pretrained,
    hf_image_network,
    hf_image_preprocessing,
    lite0_network,
    timm_network,
    timm_statistics,
)

_NARROW = 16  # channels below which channels_last is not safe (see models/config.py)


class NamedNetwork(Backbone):
    """A network of another library without its classifier (`backbone`), and a linear `head` of our own.

    Shapes: [B, 1 or 3, H, W] -> features [B, d] -> logits [B, K]. Gray images get three equal channels. Images are
    resized to `side` where that is set. A frozen backbone is not trained and stays in evaluation mode; its BatchNorm
    keeps the statistics it came with.
    """

    def __init__(
        self, found: Pretrained, source: tuple[str, str, int | None], n_classes: int, *, side: int | None, frozen: bool
    ) -> None:
        """`source`: name, weights and size, with which `found` was loaded."""
        super().__init__()
        self.backbone, self.source, self.side, self.frozen = found.net, source, side, frozen
        self.head = nn.Linear(_n_features(found), n_classes)
        self._channels_last = _is_wide(self.backbone)
        if self._channels_last:
            self.backbone = self.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if frozen:
            self.backbone.requires_grad_(False)
            for module in self.backbone.modules():
                if isinstance(module, _BatchNorm):
                    # In evaluation mode this changes nothing but what tools that measure statistics anew look at.
                    module.track_running_stats = False
        self.train(self.training)

    def train(self, mode: bool = True) -> NamedNetwork:
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def features(self, x: Tensor) -> Tensor:
        if x.shape[1] == 1:
            x = x.expand(-1, 3, -1, -1)
        if self.side is not None and tuple(x.shape[2:]) != (self.side, self.side):
            shrinks = min(x.shape[2:]) > self.side  # only then antialias
            x = F.interpolate(x, size=(self.side, self.side), mode="bicubic", align_corners=False, antialias=shrinks)
        if self._channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        found: Tensor = self.backbone(x)
        return found.flatten(2).mean(dim=2) if found.ndim > 2 else found

    def restart(self) -> None:
        """Begin anew, for methods that do: with the weights it came with, and a fresh head."""
        self.backbone.load_state_dict(_load(*self.source).net.state_dict())
        self.head.reset_parameters()


def named_network(
    name: str, weights: str, input_shape: tuple[int, ...], n_classes: int, *, size: int | None, frozen: bool
) -> NamedNetwork:
    """Build a network by name; weights: "pretrained", "none", or a file. size: side to which images are resized."""
    channels, _, _ = image_shape(name, input_shape, smallest=1)
    if channels not in (1, 3):
        raise UserError(f"model {name} needs images of 1 or 3 channels, these have {channels}")
    source = (name, weights, size)
    found = _load(*source)
    side = size if size is not None else found.side if found.fixed else None
    return NamedNetwork(found, source, n_classes, side=side, frozen=frozen)


def input_statistics(name: str, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std per channel (pixels in 0..1) of the images that a network of this name was trained on."""
    prefix, _, rest = name.partition(":")
    if prefix == "timm":
        mean, std = timm_statistics(rest)
    elif prefix == "hf":
        mean, std, _, _ = hf_image_preprocessing(rest)
    else:
        mean, std = LITE0_MEAN, LITE0_STD
    return (mean, std) if channels == 3 else ((sum(mean) / 3,), (sum(std) / 3,))


def _load(name: str, weights: str, size: int | None) -> Pretrained:
    prefix, _, rest = name.partition(":")
    what = f"model {name}"
    if prefix == "timm":
        return timm_network(rest, weights, size=size, what=what)
    if prefix == "hf":
        return hf_image_network(rest, weights, size=size)
    assert name == "lite0"
    return lite0_network(weights)


def _n_features(found: Pretrained) -> int:
    """Ask the network itself: what libraries note about it is not always what it returns."""
    was_training = found.net.training
    try:
        with torch.no_grad():
            out: Any = found.net.eval()(torch.zeros(1, 3, found.side, found.side))
    except Exception as error:  # whatever a library raises
        raise UserError(f"{type(found.net).__name__} cannot read images: {one_line(error)}") from error
    finally:
        found.net.train(was_training)
    return int(out.shape[1])


def _is_wide(net: nn.Module) -> bool:
    """Whether no strided 1×1 convolution is so narrow that oneDNN's channels_last backward would be unsafe."""
    return all(
        conv.in_channels >= _NARROW or conv.kernel_size != (1, 1) or conv.stride == (1, 1)
        for conv in net.modules()
        if isinstance(conv, nn.Conv2d)
    )
