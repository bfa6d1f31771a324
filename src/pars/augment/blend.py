"""Colour and sharpness, the two operations that are no table; and what Pillow's enhancements share: a blend."""

from __future__ import annotations

import torch
from torch import Tensor


def blend(zero: Tensor, one: Tensor, factor: Tensor) -> Tensor:
    """uint8 pixels on the line through `zero` (factor 0) and `one` (factor 1), cut off, not rounded (`Image.blend`).

    The two float32 operations are those of Pillow's C code, so the result is the same bit for bit where that was
    compiled without fused multiply-add (every x86-64 wheel).

    >>> a, b = torch.tensor([[10], [10]], dtype=torch.uint8), torch.tensor([[20], [20]], dtype=torch.uint8)
    >>> blend(a, b, torch.tensor([[0.55], [1.9]])).flatten().tolist()
    [15, 29]
    """
    start = zero.to(torch.float32)
    return (one.to(torch.float32) - start).mul_(factor.to(torch.float32)).add_(start).clamp_(0, 255).to(torch.uint8)


def grey(x: Tensor) -> Tensor:
    """Luma [n, H, W] in 0..255, int32: ITU-R 601 in 16-bit fixed point (`Image.convert("L")`)."""
    if x.shape[1] == 1:
        return x[:, 0].to(torch.int32)
    red, green, blue = x.to(torch.int32).unbind(1)
    return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16


def color(x: Tensor, factor: Tensor) -> Tensor:
    """Between the grey picture (0), the picture (1) and beyond. A grey picture stays as it is."""
    if x.shape[1] == 1:
        return x
    return blend(grey(x)[:, None], x, factor[:, None, None, None])


def sharpness(x: Tensor, factor: Tensor) -> Tensor:
    """Between the smoothed picture (0), the picture (1) and beyond."""
    return blend(smooth(x), x, factor[:, None, None, None])


def smooth(x: Tensor) -> Tensor:
    """A 3×3 mean in which the centre counts five times; the border stays (`ImageFilter.SMOOTH`)."""
    if min(x.shape[2:]) < 3:
        return x
    pixels = x.to(torch.float32)
    rows = pixels[:, :, :-2] + pixels[:, :, 1:-1] + pixels[:, :, 2:]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * pixels[:, :, 1:-1, 1:-1]
    # Rounded: total/13 is never nearer than 1/26 to a half, so it does not matter how the division is done.
    out = x.clone()
    out[:, :, 1:-1, 1:-1] = total.div_(13).add_(0.5).to(torch.uint8)
    return out
