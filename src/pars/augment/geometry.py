"""Shear, shift and turn: each image through its own affine map, nearest pixel, exactly as Pillow does it.

Pillow walks `Image.transform(size, AFFINE, …)` in fixed point, 16 bits after the point. The maps are rounded the same
way here, on the CPU and in float64 where they are drawn; applying them is integer arithmetic, the same on every device.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pars.lazy import F, torch

if TYPE_CHECKING:
    from torch import Tensor

Floats = npt.NDArray[np.float64]

ONE = 1 << 16
LARGEST_SIDE = 1 << 14
"""Positions are numbers of 32 bits, as Pillow's are; it leaves fixed point where a side is twice as long."""


def shear_x(amount: Floats) -> Floats:
    """Pillow's affine data [n, 6] = (a, b, c, d, e, f): output (x, y) shows input (ax + by + c, dx + ey + f)."""
    return _matrices(amount, b=amount)


def shear_y(amount: Floats) -> Floats:
    return _matrices(amount, d=amount)


def translate_x(pixels: Floats) -> Floats:
    """Positive moves the picture left, as the map is from output to input."""
    return _matrices(pixels, c=pixels)


def translate_y(pixels: Floats) -> Floats:
    return _matrices(pixels, f=pixels)


def rotate(degrees: Floats, size: tuple[int, int]) -> Floats:
    """Counter-clockwise about the center of a picture of (height, width), as `Image.rotate`."""
    height, width = size
    angle = -np.radians(degrees % 360)
    cos, sin = np.cos(angle).round(15), np.sin(angle).round(15)  # Pillow rounds, so that a right angle has a true zero
    x, y = width / 2, height / 2
    c = cos * -x + sin * -y + x
    f = -sin * -x + cos * -y + y
    return np.stack([cos, sin, c, -sin, cos, f], axis=-1)


def fixed_point(matrix: Floats) -> npt.NDArray[np.int64]:
    """Affine data [n, 6] in Pillow's fixed point, for the center of pixel (0, 0) on.

    >>> fixed_point(translate_x(np.array([0.4, 0.5])))[:, 2] // ONE      # nearest: less than half a pixel is none
    array([0, 1])
    """
    a, b, c, d, e, f = np.moveaxis(matrix, -1, 0)
    start_x, start_y = c + a * 0.5 + b * 0.5, f + d * 0.5 + e * 0.5
    fixed = np.floor(np.stack([a, b, start_x, d, e, start_y], axis=-1) * ONE + 0.5)
    # Without shear or turn Pillow stays in floating point. Here such maps are whole-pixel shifts (or a half turn), so
    # cutting the start off where it cuts a pixel off gives the same pixels.
    straight = (b == 0) & (d == 0)
    fixed[straight, 2] = np.floor(start_x[straight]) * ONE
    fixed[straight, 5] = np.floor(start_y[straight]) * ONE
    return fixed.astype(np.int64)


def warp(x: Tensor, fixed: Tensor, fill: int = 0) -> Tensor:
    """Each image through its map; what lies outside is `fill`. Shapes: x [n, C, H, W], fixed [n, 6] -> [n, C, H, W].

    >>> x = torch.tensor([[[[1, 2, 3]]]], dtype=torch.uint8)
    >>> warp(x, torch.from_numpy(fixed_point(translate_x(np.array([1.0]))))).tolist()
    [[[[2, 3, 0]]]]
    """
    return _gather(x, *(v[:, None, None] for v in fixed.to(torch.int32).unbind(1)), fill=fill)


def warp_one(x: Tensor, fixed: Sequence[int], fill: int = 0) -> Tensor:
    """The same for one picture [1, C, H, W] on a CPU, where a map that slides whole lines need not gather pixels."""
    a, b, c, d, e, f = fixed
    if (a, d, e) == (ONE, 0, ONE):
        return _slide(x, (b * np.arange(x.shape[2]) + c) >> 16, f >> 16, fill)
    return _gather(x, *fixed, fill=fill)


def _gather(x: Tensor, *fixed: Tensor | int, fill: int) -> Tensor:
    """fixed: six numbers, or six tensors [n, 1, 1]. In 32 bits, for positions of 64 are twice the traffic."""
    a, b, c, d, e, f = fixed
    n, channels, height, width = x.shape
    down = torch.arange(height, dtype=torch.int32, device=x.device)[:, None]
    across = torch.arange(width, dtype=torch.int32, device=x.device)
    # One pixel of fill all around, and positions pushed onto it: cheaper than asking whether each pixel is inside.
    from_x = (a * across + (b * down + (c + ONE))).bitwise_right_shift_(16).clamp_(0, width + 1)  # in padded pixels
    from_y = (d * across + (e * down + (f + ONE))).bitwise_right_shift_(16).clamp_(0, height + 1)
    index = from_y.mul_(width + 2).add_(from_x).view(n, 1, -1).long()
    source = F.pad(x, (1, 1, 1, 1), value=fill).flatten(2)
    return source.gather(2, index.expand(-1, channels, -1)).view(x.shape)


def _slide(x: Tensor, right: npt.NDArray[np.int64], down: int, fill: int) -> Tensor:
    """Show each line of the picture from its own column right [H] on, all of them from line `down` on.

    Neighboring lines that begin at the same column are copied at once: shifts are one such block, shears up to a few
    dozen. By numpy, for a slice in torch costs as much as such a block.
    """
    height, width = x.shape[2:]
    out = torch.full_like(x, fill)
    if abs(down) >= height:
        return out
    first, beyond = max(-down, 0), min(height - down, height)  # lines that show something
    turns = np.flatnonzero(right[first + 1 : beyond] != right[first : beyond - 1]) + (first + 1)
    source, target = x.numpy(), out.numpy()
    for top, bottom in pairwise((first, *turns.tolist(), beyond)):
        at = int(right[top])
        seen = source[..., top + down : bottom + down, max(at, 0) : max(width + at, 0)]
        left = max(-at, 0)
        target[..., top:bottom, left : left + seen.shape[-1]] = seen
    return out


def _matrices(like: Floats, **entries: Floats) -> Floats:
    matrix = np.broadcast_to(np.array([1.0, 0, 0, 0, 1, 0]), (*like.shape, 6)).copy()
    for name, values in entries.items():
        matrix[..., "abcdef".index(name)] = values
    return matrix
