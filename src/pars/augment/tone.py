"""Point operations, exactly Pillow's: a table of 256 entries per image and channel, or arithmetic on the pixels.

A table is built for each image, from its histogram where the operation asks for one, and applied by one gather.
Shapes: x [n, C, H, W] uint8, tables [n, C, 256] uint8; an amount is one number or [n, 1, 1, 1].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.augment.blend import Amount, between, gray, to_bytes
from pars.augment.view import one_by_one
from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


def lookup(x: Tensor, table: Tensor) -> Tensor:
    """Replace each pixel by its entry.

    >>> table = torch.arange(255, -1, -1).to(torch.uint8).view(1, 1, 256)
    >>> lookup(torch.tensor([[[[0, 255]]]], dtype=torch.uint8), table).tolist()
    [[[[255, 0]]]]
    """
    if one_by_one(x):
        # Python's own translation of bytes, two thirds of the time of a gather, which first needs positions of 64 bits.
        planes = zip(x.flatten(0, 1).numpy(), table.flatten(0, 1).tolist(), strict=True)
        done = [bytearray(plane).translate(bytes(entries)) for plane, entries in planes]
        return torch.cat([torch.frombuffer(plane, dtype=torch.uint8) for plane in done]).view(x.shape)
    return table.gather(2, x.flatten(2).long()).view(x.shape)


def autocontrast(x: Tensor) -> Tensor:
    """Table that stretches each channel from its darkest and lightest pixel to 0 and 255."""
    pixels = x.flatten(2)
    low, high = pixels.amin(2, keepdim=True).double(), pixels.amax(2, keepdim=True).double()
    # In double and in this order, as Pillow; `255 / tensor` would multiply by a reciprocal, which rounds otherwise.
    scale = torch.full_like(low, 255) / (high - low)
    stretched = (_ramp(x).double() * scale + -low * scale).clamp_(0, 255).to(torch.uint8)
    return torch.where(high > low, stretched, _ramp(x))


def equalize(x: Tensor) -> Tensor:
    """Table that flattens each channel's histogram."""
    n, channels, height, width = x.shape
    if one_by_one(x):
        counts = torch.stack([torch.bincount(channel, minlength=256) for channel in x.flatten(2).flatten(0, 1)])
    else:
        pixels = x.flatten(2).long()
        counts = pixels.new_zeros(n, channels, 256).scatter_add_(2, pixels, torch.ones_like(pixels))
    counts = counts.view(n, channels, 256)
    lightest = x.flatten(2).amax(2, keepdim=True)
    step = (height * width - counts.gather(2, lightest.long())) // 255
    before = counts.cumsum(2) - counts  # pixels darker than each value
    flat = ((step // 2 + before) // step.clamp(min=1)).clamp_(max=255).to(torch.uint8)
    return torch.where(step > 0, flat, _ramp(x))


def posterize(x: Tensor, bits: Amount) -> Tensor:
    """Keep the upper `bits` bits of each pixel."""
    kept = 256 - 2 ** (8 - bits)
    return x & (kept.to(torch.uint8) if isinstance(kept, torch.Tensor) else int(kept))


def solarize(x: Tensor, threshold: Amount) -> Tensor:
    """Invert the pixels from `threshold` on."""
    # A 16-bit difference shifted by 15 is -1 below the threshold and 0 from it on; 255 - x is x with every bit turned.
    # Bit by bit, because torch compares bytes one at a time on a CPU.
    below = x.to(torch.int16)
    below.sub_(threshold.to(torch.int16) if isinstance(threshold, torch.Tensor) else int(threshold))
    return below.bitwise_right_shift_(15).bitwise_not_().to(torch.uint8).bitwise_xor_(x)


def brightness(x: Tensor, factor: Amount) -> Tensor:
    """Between black (0), the picture (1) and beyond."""
    return to_bytes(x.to(torch.float32).mul_(factor))


def contrast(x: Tensor, factor: Amount) -> Tensor:
    """Between the picture's mean gray (0), the picture (1) and beyond."""
    pixels = x.to(torch.float32)
    total = gray(pixels).sum((1, 2, 3), keepdim=True, dtype=torch.float64)
    mean = (total / (x.shape[2] * x.shape[3]) + 0.5).floor_().to(torch.float32)
    return between(mean, pixels, factor)


def _ramp(x: Tensor) -> Tensor:
    """The table that changes nothing, [n, C, 256]."""
    ramp = torch.arange(256, dtype=torch.uint8, device=x.device)
    return ramp.expand(x.shape[0], x.shape[1], 256)
