"""Pillow's image operations on whole batches, with exactly Pillow's pixels.

Point operations change each pixel by its value: by a lookup table of 256 entries per image and channel, or by
arithmetic. Geometric operations move pixels by one affine map per image, nearest neighbor.

Shapes: x [n, C, H, W] uint8. An amount is one number for all images, or a tensor [n, 1, 1, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from pars.augment.view import loop_over_images
from pars.lazy import F, torch

if TYPE_CHECKING:
    from torch import Tensor

Amount: TypeAlias = "Tensor | float"
Floats = npt.NDArray[np.float64]

LARGEST_SIDE = 1 << 14
"""Largest side of an image that `warp` moves: positions are 32-bit fixed-point numbers, as in Pillow."""
_ONE = 1 << 16  # 1 in fixed point with 16 fractional bits


# --- point operations ---


def autocontrast(x: Tensor) -> Tensor:
    """Stretch each channel so that its darkest pixel becomes 0 and its lightest 255."""
    pixels = x.flatten(2)
    low, high = pixels.amin(2, keepdim=True).double(), pixels.amax(2, keepdim=True).double()
    # In double and in Pillow's order. `255 / tensor` would multiply by a reciprocal, which rounds differently.
    scale = torch.full_like(low, 255) / (high - low)
    stretched = (_identity_table(x).double() * scale + -low * scale).clamp_(0, 255).to(torch.uint8)
    return _lookup(x, torch.where(high > low, stretched, _identity_table(x)))


def equalize(x: Tensor) -> Tensor:
    """Flatten the histogram of each channel."""
    n, channels, height, width = x.shape
    if loop_over_images(x):
        counts = torch.stack([torch.bincount(channel, minlength=256) for channel in x.flatten(2).flatten(0, 1)])
    else:
        pixels = x.flatten(2).long()
        counts = pixels.new_zeros(n, channels, 256).scatter_add_(2, pixels, torch.ones_like(pixels))
    counts = counts.view(n, channels, 256)
    lightest = x.flatten(2).amax(2, keepdim=True)
    step = (height * width - counts.gather(2, lightest.long())) // 255
    darker = counts.cumsum(2) - counts  # pixels darker than each value
    flat = ((step // 2 + darker) // step.clamp(min=1)).clamp_(max=255).to(torch.uint8)
    return _lookup(x, torch.where(step > 0, flat, _identity_table(x)))


def invert(x: Tensor) -> Tensor:
    """Return 255 - x."""
    return 255 - x


def posterize(x: Tensor, bits: Amount) -> Tensor:
    """Keep the upper `bits` bits of each pixel."""
    mask = 256 - 2 ** (8 - bits)
    return x & (mask.to(torch.uint8) if isinstance(mask, torch.Tensor) else int(mask))


def solarize(x: Tensor, threshold: Amount) -> Tensor:
    """Invert the pixels that are at least `threshold`."""
    # A 16-bit difference shifted by 15 is -1 below the threshold and 0 from it on; 255 - x is x with all bits flipped.
    # Bitwise, because torch compares bytes one at a time on a CPU.
    below = x.to(torch.int16).sub_(threshold.to(torch.int16) if isinstance(threshold, torch.Tensor) else int(threshold))
    return below.bitwise_right_shift_(15).bitwise_not_().to(torch.uint8).bitwise_xor_(x)


def brightness(x: Tensor, factor: Amount) -> Tensor:
    """Interpolate from black (factor 0) to the image (1), or extrapolate."""
    return _to_uint8(x.to(torch.float32).mul_(factor))


def contrast(x: Tensor, factor: Amount) -> Tensor:
    """Interpolate from the mean gray of the image (factor 0) to the image (1), or extrapolate."""
    pixels = x.to(torch.float32)
    total = _luma(pixels).sum((1, 2, 3), keepdim=True, dtype=torch.float64)
    mean = (total / (x.shape[2] * x.shape[3]) + 0.5).floor_().to(torch.float32)
    return _blend(mean, pixels, factor)


def color(x: Tensor, factor: Amount) -> Tensor:
    """Interpolate from the gray image (factor 0) to the image (1), or extrapolate. Gray images stay as they are."""
    if x.shape[1] == 1:
        return x
    pixels = x.to(torch.float32)
    return _blend(_luma(pixels), pixels, factor)


def sharpness(x: Tensor, factor: Amount) -> Tensor:
    """Interpolate from the smoothed image (factor 0) to the image (1), or extrapolate.

    Smoothing is a 3×3 mean in which the center counts five times; the border stays (`ImageFilter.SMOOTH`).
    """
    if min(x.shape[2:]) < 3:
        return x
    pixels = x.to(torch.int16)  # sums are at most 13 · 255, and half the bytes of floats
    rows = (pixels[:, :, :-2] + pixels[:, :, 1:-1]).add_(pixels[:, :, 2:])
    center = pixels[:, :, 1:-1, 1:-1]
    total = (rows[..., :-2] + rows[..., 1:-1]).add_(rows[..., 2:]).add_(center, alpha=4)
    # Rounded. total/13 is never closer than 1/26 to a half, so the rounding of the division does not matter.
    smooth = total.to(torch.float32).mul_(1 / 13).add_(0.5).floor_()
    out = x.clone()
    out[:, :, 1:-1, 1:-1] = _blend(smooth, center.to(torch.float32), factor)
    return out


def _lookup(x: Tensor, table: Tensor) -> Tensor:
    """Replace each pixel by its entry in a table [n, C, 256].

    >>> table = torch.arange(255, -1, -1).to(torch.uint8).view(1, 1, 256)
    >>> _lookup(torch.tensor([[[[0, 255]]]], dtype=torch.uint8), table).tolist()
    [[[[255, 0]]]]
    """
    if loop_over_images(x):
        # Python's bytes.translate takes two thirds of the time of a gather, which needs 64-bit positions first.
        planes = zip(x.flatten(0, 1).numpy(), table.flatten(0, 1).tolist(), strict=True)
        translated = [bytearray(plane).translate(bytes(entries)) for plane, entries in planes]
        return torch.cat([torch.frombuffer(plane, dtype=torch.uint8) for plane in translated]).view(x.shape)
    return table.gather(2, x.flatten(2).long()).view(x.shape)


def _identity_table(x: Tensor) -> Tensor:
    """Return the lookup table that changes nothing, [n, C, 256]."""
    ramp = torch.arange(256, dtype=torch.uint8, device=x.device)
    return ramp.expand(x.shape[0], x.shape[1], 256)


def _blend(zero: Tensor, one: Tensor, factor: Amount) -> Tensor:
    """Return zero + factor · (one - zero) as uint8, for float tensors of whole pixels (`Image.blend`).

    Overwrites `one`: a large image in float32 fills a core's cache, and two of them do not fit.
    The two float32 operations are those of Pillow's C code, so the result is the same bit for bit if that was
    compiled without fused multiply-add (every x86-64 wheel).

    >>> _blend(torch.tensor([10.0, 10]), torch.tensor([20.0, 20]), torch.tensor([0.55, 1.9])).tolist()
    [15, 29]
    """
    return _to_uint8(one.sub_(zero).mul_(factor).add_(zero))


def _to_uint8(pixels: Tensor) -> Tensor:
    """Clamp float pixels to 0..255 and truncate them; overwrites its input.

    >>> _to_uint8(torch.tensor([-3.0, 7.9, 300])).tolist()
    [0, 7, 255]
    """
    # Via int32: torch itself converts via int64, which takes three times as long on a CPU.
    return pixels.clamp_(0, 255).to(torch.int32).to(torch.uint8)


def _luma(pixels: Tensor) -> Tensor:
    """Return the gray image [n, 1, H, W] of float pixels: ITU-R 601 in 16-bit fixed point (`Image.convert("L")`).

    Every product and sum is a whole number below 2^24, so float32 is exact.
    """
    if pixels.shape[1] == 1:
        return pixels
    red, green, blue = pixels.split(1, dim=1)  # type: ignore[no-untyped-call]
    luma: Tensor = (red * 19595).add_(green, alpha=38470).add_(blue, alpha=7471).add_(0x8000)
    return luma.mul_(2.0**-16).floor_()


# --- geometric operations ---


def rotation_matrix(degrees: Floats, size: tuple[int, int]) -> Floats:
    """Return affine coefficients [n, 6] that rotate an image of (height, width) about its center (`Image.rotate`).

    Coefficients are Pillow's (a, b, c, d, e, f): output pixel (x, y) shows input (ax + by + c, dx + ey + f).
    Positive angles rotate counter-clockwise.
    """
    height, width = size
    angle = -np.radians(degrees % 360)
    cos, sin = np.cos(angle).round(15), np.sin(angle).round(15)  # as Pillow, so that a right angle has exact zeros
    x, y = width / 2, height / 2
    c = cos * -x + sin * -y + x
    f = -sin * -x + cos * -y + y
    return np.stack([cos, sin, c, -sin, cos, f], axis=-1)


def to_fixed_point(matrix: Floats) -> npt.NDArray[np.int64]:
    """Return affine coefficients [..., 6] in fixed point, with the offsets of the center of pixel (0, 0).

    Pillow computes `Image.transform(size, AFFINE, …)` with 16 fractional bits. Rounding on the CPU, in float64, makes
    `warp` pure integer arithmetic with the same result on every device.

    >>> shifts = np.array([[1, 0, 0.4, 0, 1, 0], [1, 0, 0.5, 0, 1, 0]])
    >>> to_fixed_point(shifts)[:, 2] // 2**16           # nearest neighbor: less than half a pixel is no shift
    array([0, 1])
    """
    a, b, c, d, e, f = np.moveaxis(matrix, -1, 0)
    start_x, start_y = c + a * 0.5 + b * 0.5, f + d * 0.5 + e * 0.5
    fixed = np.floor(np.stack([a, b, start_x, d, e, start_y], axis=-1) * _ONE + 0.5)
    # Without shear or rotation Pillow uses floating point. Such maps shift by whole pixels here (or turn by 180°), so
    # flooring the offset where Pillow floors a position gives the same pixels.
    straight = (b == 0) & (d == 0)
    fixed[straight, 2] = np.floor(start_x[straight]) * _ONE
    fixed[straight, 5] = np.floor(start_y[straight]) * _ONE
    return fixed.astype(np.int64)


def warp(x: Tensor, fixed: Tensor, fill: int = 0) -> Tensor:
    """Move the pixels of each image by its affine map; pixels from outside are `fill`.

    Shapes: x [n, C, H, W], fixed [n, 6] (from `to_fixed_point`) -> [n, C, H, W].

    >>> x = torch.tensor([[[[1, 2, 3]]]], dtype=torch.uint8)
    >>> warp(x, torch.from_numpy(to_fixed_point(np.array([[1.0, 0, 1, 0, 1, 0]])))).tolist()
    [[[[2, 3, 0]]]]
    """
    return _gather(x, *(v[:, None, None] for v in fixed.to(torch.int32).unbind(1)), fill=fill)


def warp_one(x: Tensor, fixed: Sequence[int], fill: int = 0) -> Tensor:
    """`warp` for one image [1, C, H, W] on a CPU; horizontal shears and shifts copy rows instead of single pixels."""
    a, b, c, d, e, f = fixed
    if (a, d, e) == (_ONE, 0, _ONE):
        return _shift_rows(x, (b * np.arange(x.shape[2]) + c) >> 16, f >> 16, fill)
    return _gather(x, *fixed, fill=fill)


def _gather(x: Tensor, *fixed: Tensor | int, fill: int) -> Tensor:
    """Warp pixel by pixel. fixed: six numbers, or six tensors [n, 1, 1], in 32 bits to halve the memory traffic."""
    a, b, c, d, e, f = fixed
    n, channels, height, width = x.shape
    down = torch.arange(height, dtype=torch.int32, device=x.device)[:, None]
    across = torch.arange(width, dtype=torch.int32, device=x.device)
    # A border of fill, one pixel wide, and positions clamped onto it: cheaper than a mask of the pixels inside.
    from_x = (a * across + (b * down + (c + _ONE))).bitwise_right_shift_(16).clamp_(0, width + 1)  # in padded pixels
    from_y = (d * across + (e * down + (f + _ONE))).bitwise_right_shift_(16).clamp_(0, height + 1)
    index = from_y.mul_(width + 2).add_(from_x).view(n, 1, -1).long()
    source = F.pad(x, (1, 1, 1, 1), value=fill).flatten(2)
    return source.gather(2, index.expand(-1, channels, -1)).view(x.shape)


def _shift_rows(x: Tensor, right: npt.NDArray[np.int64], down: int, fill: int) -> Tensor:
    """Show each row of the image from its own column right [H] on, and all rows from row `down` on.

    Neighboring rows that start at the same column are copied as one block: a shift is one block, a shear up to a few
    dozen. With numpy, because a slice in torch costs as much as such a block.
    """
    height, width = x.shape[2:]
    out = torch.full_like(x, fill)
    if abs(down) >= height:
        return out
    first, beyond = max(-down, 0), min(height - down, height)  # output rows that show a part of the image
    changes = np.flatnonzero(right[first + 1 : beyond] != right[first : beyond - 1]) + (first + 1)
    source, target = x.numpy(), out.numpy()
    for top, bottom in pairwise((first, *changes.tolist(), beyond)):
        column = int(right[top])
        block = source[..., top + down : bottom + down, max(column, 0) : max(width + column, 0)]
        left = max(-column, 0)
        target[..., top:bottom, left : left + block.shape[-1]] = block
    return out
