"""Image encoders: pixels, EfficientNet-lite0, networks of timm; and the resizing and normalization they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pars.encode.encoder import Encoder, Features, Images, weights_checksum
from pars.errors import UserError
from pars.models.pretrained import LIBRARY, lite0_network, timm_network

_PIXELS_SIDE = 32
_LITE0_SIDE = 96  # pixels; 128 is some points more accurate and half as fast
_LITE0_BATCH = 50


def resize_images(images: Images, size: int) -> Tensor:
    """Return float pixels 0..255 [n, 3, size, size], bicubic; gray is repeated, an alpha channel is dropped.

    >>> resize_images(np.full((2, 1, 8, 8), 9, np.uint8), 16)[1, 2, 3, 4]
    tensor(9.)
    """
    pixels = torch.from_numpy(np.ascontiguousarray(images)).float()
    if pixels.ndim != 4 or pixels.shape[1] not in (1, 3, 4):
        raise UserError(f"images of shape {list(images.shape)}, expected [n, C, H, W] with 1, 3 or 4 channels")
    pixels = pixels.expand(-1, 3, -1, -1) if pixels.shape[1] == 1 else pixels[:, :3]
    if tuple(pixels.shape[2:]) != (size, size):
        shrinks = min(pixels.shape[2:]) > size  # only then antialias
        pixels = F.interpolate(pixels, size=(size, size), mode="bicubic", align_corners=False, antialias=shrinks)
    return pixels


def normalize_images(images: Images, size: int, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Return resized images, (pixels / 255 - mean) / std per channel, in channels_last layout: [n, 3, size, size]."""
    shift, scale = (torch.tensor(values).view(3, 1, 1) for values in (mean, std))
    pixels = resize_images(images, size).clamp_(0, 255) / 255
    return ((pixels - shift) / scale).contiguous(memory_format=torch.channels_last)


def encode_with(
    network: Callable[[Tensor], Tensor], preprocess: Callable[[Images], Tensor]
) -> Callable[[Images], Features]:
    """Return the `encode` function of a network: preprocess, forward without gradients, global average pool."""

    @torch.inference_mode()
    def encode(images: Images) -> Features:
        found = network(preprocess(images)).float()
        if found.ndim > 2:  # [n, d, h, w]
            found = found.flatten(2).mean(dim=2)
        return found.cpu().numpy()

    return encode


def pixels() -> Encoder:
    """Return the encoder to pixels in 0..1, at most 32×32 of them: a baseline, and enough for digits.

    >>> pixels().encode(np.full((2, 1, 8, 8), 255, np.uint8)).shape
    (2, 64)
    """

    def encode(images: Images) -> Features:
        if max(images.shape[2:]) > _PIXELS_SIDE:
            small = resize_images(images, _PIXELS_SIDE)[:, : images.shape[1]].clamp_(0, 255)
        else:
            small = torch.from_numpy(np.ascontiguousarray(images)).float()
        return (small.flatten(1) / 255).numpy()

    return Encoder("pixels", "image", encode, size=_PIXELS_SIDE, batch=256)


def lite0(size: int | None = None) -> Encoder:
    """Return EfficientNet-lite0 (ImageNet), whose weights come in a package: images of any size to 1280 features."""
    side, net = size or _LITE0_SIDE, lite0_network().net
    identity = {"weights_blake2b": weights_checksum(net.net), "torch": torch.__version__}  # type: ignore[arg-type]

    def preprocess(images: Images) -> torch.Tensor:
        return ((resize_images(images, side) - 127) / 128).contiguous(memory_format=torch.channels_last)

    body = net.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    example = torch.zeros(_LITE0_BATCH, 3, side, side).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():  # traced and frozen: BatchNorm is folded into the convolutions
        traced = torch.jit.freeze(torch.jit.trace(body, example))  # type: ignore[no-untyped-call]
    return Encoder("lite0", "image", encode_with(traced, preprocess), size=side, batch=_LITE0_BATCH, identity=identity)


def timm_model(name: str, size: int | None = None) -> Encoder:
    """Return a network of timm without its classifier, with its own resizing and normalization.

    name: of the model, or NAME@FILE to take the weights from a file.
    """
    model, _, file = name.partition("@")
    found = timm_network(model, file or LIBRARY, size=size, what=f"the encoder timm:{name}")
    side, mean, std = found.side, found.mean, found.std
    net = found.net.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    identity = {"weights_blake2b": weights_checksum(net), **(found.versions or {}), "torch": torch.__version__}
    encode = encode_with(net, lambda images: normalize_images(images, side, mean, std))
    return Encoder(f"timm:{name}", "image", encode, size=side, identity=identity)
