"""Crops of images, the weak views; and cutout, which strong views add to them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from pars.augment.view import Crop, Params, loop_over_images, to_device
from pars.lazy import F, torch

if TYPE_CHECKING:
    from torch import Tensor

Ints = npt.NDArray[np.int64]
PadMode = Literal["zero", "reflect"]

_PRECISION = 22  # fractional bits of Pillow's 8-bit resampling weights
_TRIES = 10  # boxes drawn per image by ResizedCrop


@dataclass(frozen=True)
class CropFlip:
    """Pad by `pad` pixels, crop at a random position, flip left-right with probability 1/2.

    Parameters: crop [n, 2] (top, left in the padded image), flip [n].
    The noisy-label literature pads with zeros, FixMatch by reflection.
    """

    pad: int
    flip: bool = True
    pad_mode: PadMode = "zero"
    size: int | None = None  # side of the crop; None: as large as the image

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        positions = [side - (self.size or side) + 2 * self.pad + 1 for side in shape[1:]]
        crop = rng.integers(0, positions, (n, 2))
        flip = rng.integers(0, 2, n).astype(bool)  # drawn even if unused: switching it off changes no other draw
        return {"crop": torch.from_numpy(crop), "flip": torch.from_numpy(flip & self.flip)}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        crop, flip = to_device({"crop": params["crop"], "flip": params["flip"]}, x).values()
        return crop_flip(x, crop, flip, pad=self.pad, pad_mode=self.pad_mode, size=self.size)

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape if self.size is None else (shape[0], self.size, self.size)


def crop_flip(
    x: Tensor, crop: Tensor, flip: Tensor, *, pad: int, pad_mode: PadMode = "zero", size: int | None = None
) -> Tensor:
    """Crop each image at its own position and flip it where `flip` is true.

    Shapes: x [n, C, H, W] of any dtype, crop [n, 2], flip [n] -> [n, C, size or H, size or W].

    >>> x = torch.tensor([[[[1, 2], [3, 4]]]], dtype=torch.uint8)
    >>> crop_flip(x, torch.tensor([[0, 1]]), torch.tensor([True]), pad=1)[0, 0]      # moved down, then flipped
    tensor([[0, 0],
            [2, 1]], dtype=torch.uint8)
    """
    n, channels, height, width = x.shape
    out_height, out_width = size or height, size or width
    if loop_over_images(x) and 2 * pad < min(out_height, out_width):  # so that all reflected pixels are in the crop
        return _crop_flip_loop(x, crop, flip, (out_height, out_width), pad, pad_mode)
    down, across = torch.arange(out_height, device=x.device), torch.arange(out_width, device=x.device)
    top = down + crop[:, :1]  # [n, out_height], in padded pixels
    left = torch.where(flip[:, None], out_width - 1 - across, across) + crop[:, 1:]  # [n, out_width]
    stride = width
    if pad_mode == "reflect":
        top, left = _reflect(top - pad, height), _reflect(left - pad, width)
    elif pad:
        x, stride = F.pad(x, (pad, pad, pad, pad)), width + 2 * pad
    # One gather over flattened pixels with an index shared by the channels: the fastest way on a CPU.
    index = (top[:, :, None] * stride + left[:, None, :]).view(n, 1, out_height * out_width)
    return x.flatten(2).gather(2, index.expand(-1, channels, -1)).view(n, channels, out_height, out_width)


def _crop_flip_loop(
    x: Tensor, crop: Tensor, flip: Tensor, size: tuple[int, int], pad: int, pad_mode: PadMode
) -> Tensor:
    """`crop_flip` image by image: copy the part inside the image as a slice, then pad.

    Slices are numpy's, which cost a fraction of torch's. Flips are torch's, which are eight times as fast.
    """
    out_height, out_width = size
    allocate = x.new_empty if pad_mode == "reflect" else x.new_zeros  # reflection fills every pixel
    out = allocate((len(x), x.shape[1], out_height, out_width))
    for target, image, (top, left) in zip(out.numpy(), x.numpy(), (crop - pad).tolist(), strict=True):
        above, before = max(-top, 0), max(-left, 0)  # rows and columns outside the image
        inside = image[:, max(top, 0) : top + out_height, max(left, 0) : left + out_width]
        below, after = out_height - above - inside.shape[1], out_width - before - inside.shape[2]
        target[:, above : out_height - below, before : out_width - after] = inside
        if pad_mode == "reflect":
            _reflect_ends(target.swapaxes(0, 1), above, below)
            _reflect_ends(target.transpose(2, 0, 1), before, after)
    for image, flipped in zip(out, flip.tolist(), strict=True):
        if flipped:
            image.copy_(image.flip(2))
    return out


def _reflect_ends(lines: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Fill the first and the last lines, in place, with the reflection of their neighbors."""
    n = len(lines)
    if first:
        lines[:first] = lines[first + 1 : 2 * first + 1][::-1]
    if last:
        lines[n - last :] = lines[n - 2 * last - 1 : n - last - 1][::-1]


def _reflect(position: Tensor, size: int) -> Tensor:
    """Reflect positions outside 0..size-1 back inside, without repeating the border pixel.

    >>> _reflect(torch.arange(-2, 6), 4)
    tensor([2, 1, 0, 1, 2, 3, 2, 1])
    """
    return (size - 1) - ((size - 1) - position.abs()).abs()


@dataclass(frozen=True)
class CenterCrop:
    """The central `size`×`size` pixels: evaluation of a network trained on random crops of that size. No parameters."""

    size: int

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        return {}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        top, left = (x.shape[2] - self.size) // 2, (x.shape[3] - self.size) // 2
        return x[:, :, top : top + self.size, left : left + self.size]

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], self.size, self.size)


@dataclass(frozen=True, kw_only=True)
class ResizedCrop:
    """A box of random area and aspect ratio, resized to `size`×`size`, flipped left-right with probability 1/2.

    Resampling is Pillow's (`Image.resize`, bilinear), exactly, in each direction. Here columns always come before
    rows; Pillow chooses the order by size, and where it chooses the other one a pixel may differ by one gray level.
    Parameters: box [n, 4] (top, left, bottom, right), flip [n].
    """

    size: int
    flip: bool = True
    area: tuple[float, float] = (0.08, 1.0)  # fraction of the image
    ratio: tuple[float, float] = (3 / 4, 4 / 3)  # width / height

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        height, width = shape[1:]
        area = rng.uniform(*self.area, (n, _TRIES)) * height * width
        ratio = np.exp(rng.uniform(math.log(self.ratio[0]), math.log(self.ratio[1]), (n, _TRIES)))
        box_width, box_height = np.rint(np.sqrt(area * ratio)), np.rint(np.sqrt(area / ratio))
        fits = (box_width >= 1) & (box_height >= 1) & (box_width <= width) & (box_height <= height)
        first = np.arange(n), fits.argmax(axis=1)  # the first box that fits; if none does, the whole image
        box_width = np.where(fits.any(axis=1), box_width[first], width).astype(np.int64)
        box_height = np.where(fits.any(axis=1), box_height[first], height).astype(np.int64)
        top, left = rng.integers(0, height - box_height + 1), rng.integers(0, width - box_width + 1)
        flip = rng.integers(0, 2, n).astype(bool) & self.flip
        box = np.stack([top, left, top + box_height, left + box_width], axis=1)
        return {"box": torch.from_numpy(box), "flip": torch.from_numpy(flip)}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        box, flip = params["box"].cpu().numpy(), params["flip"].to(x.device)
        out = _resize_columns(x, box[:, 1], box[:, 3], self.size)
        out = _resize_columns(out.transpose(2, 3), box[:, 0], box[:, 2], self.size).transpose(2, 3)
        return torch.where(flip[:, None, None, None], out.flip(3), out)

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], self.size, self.size)


def _resize_columns(x: Tensor, start: Ints, stop: Ints, size: int) -> Tensor:
    """Return columns start..stop-1 of each image, resized to `size` columns in Pillow's fixed-point arithmetic.

    The bilinear filter is widened when it shrinks an image (antialiasing). Shapes: x [n, C, H, W], start, stop [n].

    >>> x = torch.tensor([[[[0, 100, 200, 40]]]], dtype=torch.uint8)
    >>> _resize_columns(x, np.array([0]), np.array([4]), 2).flatten().tolist()
    [71, 117]
    """
    index, weight = _filter_taps(start, stop, size)
    shape = (len(x), x.shape[1], x.shape[2], size)
    total = torch.full(shape, 1 << (_PRECISION - 1), dtype=torch.int32, device=x.device)
    for column, share in zip(index, weight, strict=True):
        at = torch.from_numpy(column).to(x.device)[:, None, None, :].expand(shape)
        total += x.gather(3, at).to(torch.int32).mul_(torch.from_numpy(share).to(x.device)[:, None, None, :])
    return (total >> _PRECISION).clamp_(0, 255).to(torch.uint8)


def _filter_taps(start: Ints, stop: Ints, size: int) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Return the input columns of each output column and their weights, each [taps, n, size]."""
    length = (stop - start)[:, None]
    scale = length / size
    support = np.maximum(scale, 1.0)
    center = (np.arange(size) + 0.5) * scale
    first = np.maximum(np.floor(center - support + 0.5), 0)
    beyond = np.minimum(np.floor(center + support + 0.5), length)
    taps = np.arange(int((beyond - first).max(initial=1)))[:, None, None]
    # Reciprocals and this order of operations are Pillow's: the last bit sometimes decides a rounding.
    weight = np.maximum(1 - np.abs((taps + first - center + 0.5) * (1.0 / support)), 0) * (first + taps < beyond)
    weight *= 1.0 / weight.sum(axis=0)
    index = start[:, None] + np.minimum(first + taps, length - 1)
    return index.astype(np.int64), np.floor(weight * (1 << _PRECISION) + 0.5).astype(np.int32)


@dataclass(frozen=True, kw_only=True)
class Cutout:
    """A crop, then a square filled with the mean color (DeVries & Taylor 2017).

    Parameters, in addition to those of the crop: cutout [n, 4] (top, left, bottom, right).
    """

    crop: Crop
    mean: tuple[float, ...]  # per channel, for pixels in 0..1
    side: int = 8  # in pixels

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        params = self.crop.draw(rng, n, shape)
        return params | {"cutout": draw_cutout(rng, np.full(n, self.side), self.crop.output_shape(shape))}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        params = to_device(params, x)
        out = self.crop.apply(x, params)
        if out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
            out = out.clone()  # Identity returns the samples themselves, and cut_out fills in place
        fill = torch.tensor([round(255 * m) for m in self.mean], dtype=torch.uint8, device=x.device)
        return cut_out(out, params["cutout"], fill)


def draw_cutout(rng: np.random.Generator, side: Ints, shape: tuple[int, ...]) -> Tensor:
    """Return squares with the given sides [n] as boxes [n, 4]; centers are uniform, so a part may lie outside."""
    start = rng.integers(0, shape[1:], (len(side), 2)) - side[:, None] // 2
    return torch.from_numpy(np.concatenate([start, start + side[:, None]], axis=1))


def cut_out(x: Tensor, box: Tensor, fill: Tensor) -> Tensor:
    """Fill a rectangle of each image, in place.

    Shapes: x [n, C, H, W], box [n, 4] (top, left, bottom, right), fill [C] -> x.
    """
    height, width = x.shape[2:]
    if loop_over_images(x):
        color = fill.numpy()[:, None, None]
        for image, (top, left, bottom, right) in zip(x.numpy(), box.clamp(min=0).tolist(), strict=True):
            image[:, top:bottom, left:right] = color
        return x
    y, x_across = torch.arange(height, device=x.device), torch.arange(width, device=x.device)
    inside_y = (y >= box[:, 0:1]) & (y < box[:, 2:3])  # [n, H]
    inside_x = (x_across >= box[:, 1:2]) & (x_across < box[:, 3:4])  # [n, W]
    # A mask of bytes 0 and 1 makes this two passes of byte arithmetic; torch.where is ten times slower on a CPU.
    inside = (inside_y[:, None, :, None] & inside_x[:, None, None, :]).view(torch.uint8)
    return x.mul_(1 - inside).add_(fill[:, None, None] * inside)
