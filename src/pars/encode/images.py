"""From stored pixels to what image networks read; and the encoder without a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pars.encode.encoder import Encoder, Features, Images
from pars.errors import UserError

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PIXELS_SIDE = 32  # beyond, so many single pixels say less than they cost


def resized(images: Images, size: int) -> Tensor:
    """Float pixels 0..255 [n, 3, size, size]: gray thrice, without opacity, bicubic.

    >>> resized(np.full((2, 1, 8, 8), 9, np.uint8), 16)[1, 2, 3, 4]
    tensor(9.)
    """
    pixels = torch.from_numpy(np.ascontiguousarray(images)).float()
    if pixels.ndim != 4 or pixels.shape[1] not in (1, 3, 4):
        raise UserError(f"images of shape {list(images.shape)}, expected [n, C, H, W] of 1, 3 or 4 channels")
    pixels = pixels.expand(-1, 3, -1, -1) if pixels.shape[1] == 1 else pixels[:, :3]
    if tuple(pixels.shape[2:]) != (size, size):
        smaller = min(pixels.shape[2:]) > size  # only then neighbors have to be averaged
        pixels = F.interpolate(pixels, size=(size, size), mode="bicubic", align_corners=False, antialias=smaller)
    return pixels


def normalized(images: Images, size: int, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """(pixels / 255 - mean) / std per channel, in channels_last layout."""
    shift, scale = (torch.tensor(values).view(3, 1, 1) for values in (mean, std))
    return ((resized(images, size).clamp_(0, 255) / 255 - shift) / scale).contiguous(memory_format=torch.channels_last)


def with_network(
    network: Callable[[Tensor], Tensor], prepare: Callable[[Images], Tensor]
) -> Callable[[Images], Features]:
    """An image encoder's function: prepare, run without gradients, average over places where there are some left."""

    @torch.inference_mode()
    def encode(images: Images) -> Features:
        found = network(prepare(images)).float()
        if found.ndim > 2:  # [n, d, h, w]
            found = found.flatten(2).mean(dim=2)
        return found.cpu().numpy()

    return encode


def pixels() -> Encoder:
    """The pixels themselves, 0..1, at most 32×32 of them: a baseline, and enough for digits.

    >>> pixels().encode(np.full((2, 1, 8, 8), 255, np.uint8)).shape
    (2, 64)
    """

    def encode(images: Images) -> Features:
        if max(images.shape[2:]) > PIXELS_SIDE:
            kept = resized(images, PIXELS_SIDE)[:, : images.shape[1]].clamp_(0, 255)
        else:
            kept = torch.from_numpy(np.ascontiguousarray(images)).float()
        return (kept.flatten(1) / 255).numpy()

    return Encoder("pixels", "image", encode, size=PIXELS_SIDE, batch=256)
