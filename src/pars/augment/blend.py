"""Color and sharpness, which look at more than one value; and the blend that Pillow's enhancements share.

An amount is one number for all images, or a tensor [n, 1, 1, 1].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


Amount: TypeAlias = "Tensor | float"


def between(zero: Tensor, one: Tensor, factor: Amount) -> Tensor:
    """Whole float pixels on the line through `zero` (factor 0) and `one` (factor 1), cut off to uint8 (`Image.blend`).

    `one` is overwritten: a large picture in float32 fills a core's cache, and two of them do not fit.
    The two float32 operations are those of Pillow's C code, so the result is the same bit for bit where that was
    compiled without fused multiply-add (every x86-64 wheel).

    >>> between(torch.tensor([10.0, 10]), torch.tensor([20.0, 20]), torch.tensor([0.55, 1.9])).tolist()
    [15, 29]
    """
    return to_bytes(one.sub_(zero).mul_(factor).add_(zero))


def to_bytes(pixels: Tensor) -> Tensor:
    """Float pixels cut off to whole ones in 0..255; overwrites them.

    >>> to_bytes(torch.tensor([-3.0, 7.9, 300])).tolist()
    [0, 7, 255]
    """
    # By way of int32: torch itself goes by way of int64, which costs three times as much on a CPU.
    return pixels.clamp_(0, 255).to(torch.int32).to(torch.uint8)


def gray(pixels: Tensor) -> Tensor:
    """Luma [n, 1, H, W] of float pixels, whole: ITU-R 601 in 16-bit fixed point (`Image.convert("L")`).

    Every product and sum is a whole number below 2^24, so float32 is exact.
    """
    if pixels.shape[1] == 1:
        return pixels
    red, green, blue = pixels.split(1, dim=1)  # type: ignore[no-untyped-call]
    luma: Tensor = (red * 19595).add_(green, alpha=38470).add_(blue, alpha=7471).add_(0x8000)
    return luma.mul_(2.0**-16).floor_()


def color(x: Tensor, factor: Amount) -> Tensor:
    """Between the gray picture (0), the picture (1) and beyond. A gray picture stays as it is."""
    if x.shape[1] == 1:
        return x
    pixels = x.to(torch.float32)
    return between(gray(pixels), pixels, factor)


def sharpness(x: Tensor, factor: Amount) -> Tensor:
    """Between the smoothed picture (0), the picture (1) and beyond.

    Smooth is a 3×3 mean in which the center counts five times; the border stays (`ImageFilter.SMOOTH`).
    """
    if min(x.shape[2:]) < 3:
        return x
    pixels = x.to(torch.int16)  # sums are at most 13 · 255, and half the bytes of floats
    rows = (pixels[:, :, :-2] + pixels[:, :, 1:-1]).add_(pixels[:, :, 2:])
    center = pixels[:, :, 1:-1, 1:-1]
    total = (rows[..., :-2] + rows[..., 1:-1]).add_(rows[..., 2:]).add_(center, alpha=4)
    # Rounded: total/13 is never nearer than 1/26 to a half, so it does not matter how the division is done.
    smooth = total.to(torch.float32).mul_(1 / 13).add_(0.5).floor_()
    out = x.clone()
    out[:, :, 1:-1, 1:-1] = between(smooth, center.to(torch.float32), factor)
    return out
