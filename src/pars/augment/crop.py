"""The weak view of images: a padded random crop and a horizontal flip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from pars.augment.view import Params, one_by_one, to_device
from pars.lazy import F, torch

if TYPE_CHECKING:
    from torch import Tensor

PadMode = Literal["zero", "reflect"]


@dataclass(frozen=True)
class CropFlip:
    """Pad by `pad` pixels, cut a piece out at a random place, flip left-right with probability 1/2.

    Parameters: crop [n, 2] (top, left in the padded image), flip [n].
    Zero padding is the noisy-label repositories', reflection is FixMatch's.
    """

    pad: int
    flip: bool = True
    pad_mode: PadMode = "zero"
    size: int | None = None  # side of the piece; none = as large as the image

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        room = [side - (self.size or side) + 2 * self.pad + 1 for side in shape[1:]]
        crop = rng.integers(0, room, (n, 2))
        flip = rng.integers(0, 2, n).astype(bool)  # drawn even if unused: switching it off moves no other draw
        return {"crop": torch.from_numpy(crop), "flip": torch.from_numpy(flip & self.flip)}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        crop, flip = to_device({"crop": params["crop"], "flip": params["flip"]}, x).values()
        return crop_flip(x, crop, flip, pad=self.pad, pad_mode=self.pad_mode, size=self.size)

    def shape_after(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape if self.size is None else (shape[0], self.size, self.size)


def crop_flip(
    x: Tensor, crop: Tensor, flip: Tensor, *, pad: int, pad_mode: PadMode = "zero", size: int | None = None
) -> Tensor:
    """Crop and flip each image at its own place.

    Shapes: x [n, C, H, W] of any dtype, crop [n, 2], flip [n] -> [n, C, size or H, size or W].

    >>> x = torch.tensor([[[[1, 2], [3, 4]]]], dtype=torch.uint8)
    >>> crop_flip(x, torch.tensor([[0, 1]]), torch.tensor([True]), pad=1)[0, 0]      # moved down, then mirrored
    tensor([[0, 0],
            [2, 1]], dtype=torch.uint8)
    """
    n, channels, height, width = x.shape
    high, wide = size or height, size or width
    if one_by_one(x) and 2 * pad < min(high, wide):  # so that what is mirrored lies inside
        return _slices(x, crop, flip, (high, wide), pad, pad_mode)
    down, across = torch.arange(high, device=x.device), torch.arange(wide, device=x.device)
    top = down + crop[:, :1]  # [n, high], in padded pixels
    left = torch.where(flip[:, None], wide - 1 - across, across) + crop[:, 1:]  # [n, wide]
    stride = width
    if pad_mode == "reflect":
        top, left = _mirrored(top - pad, height), _mirrored(left - pad, width)
    elif pad:
        x, stride = F.pad(x, (pad, pad, pad, pad)), width + 2 * pad
    # One gather over flattened pixels, its index shared by the channels: the fastest of five ways tried, on a CPU.
    index = (top[:, :, None] * stride + left[:, None, :]).view(n, 1, high * wide)
    return x.flatten(2).gather(2, index.expand(-1, channels, -1)).view(n, channels, high, wide)


def _slices(x: Tensor, crop: Tensor, flip: Tensor, size: tuple[int, int], pad: int, pad_mode: PadMode) -> Tensor:
    """The same, image by image: what lies inside the image is a slice of it, the rest stays black or is mirrored.

    By numpy, whose slices cost a fraction of torch's; but turning lines round is torch's, eight times as fast.
    """
    high, wide = size
    make = x.new_empty if pad_mode == "reflect" else x.new_zeros  # the mirror image covers all
    out = make((len(x), x.shape[1], high, wide))
    for to, image, (top, left) in zip(out.numpy(), x.numpy(), (crop - pad).tolist(), strict=True):
        above, before = max(-top, 0), max(-left, 0)  # lines and columns outside
        piece = image[:, max(top, 0) : top + high, max(left, 0) : left + wide]
        below, after = high - above - piece.shape[1], wide - before - piece.shape[2]
        to[:, above : high - below, before : wide - after] = piece
        if pad_mode == "reflect":
            _mirror_ends(to.swapaxes(0, 1), above, below)
            _mirror_ends(to.transpose(2, 0, 1), before, after)
    for image, mirror in zip(out, flip.tolist(), strict=True):
        if mirror:
            image.copy_(image.flip(2))
    return out


def _mirror_ends(lines: npt.NDArray[np.uint8], first: int, last: int) -> None:
    """Fill the first and last lines with the mirror image of what follows and precedes them."""
    n = len(lines)
    if first:
        lines[:first] = lines[first + 1 : 2 * first + 1][::-1]
    if last:
        lines[n - last :] = lines[n - 2 * last - 1 : n - last - 1][::-1]


@dataclass(frozen=True)
class CenterCrop:
    """The middle `size`×`size` pixels: what is evaluated where training sees pieces of that size. No parameters."""

    size: int

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        return {}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        top, left = (x.shape[2] - self.size) // 2, (x.shape[3] - self.size) // 2
        return x[:, :, top : top + self.size, left : left + self.size]

    def shape_after(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], self.size, self.size)


def _mirrored(position: Tensor, size: int) -> Tensor:
    """Fold positions outside 0..size-1 back inside; the border pixel itself is not repeated.

    >>> _mirrored(torch.arange(-2, 6), 4)
    tensor([2, 1, 0, 1, 2, 3, 2, 1])
    """
    return (size - 1) - ((size - 1) - position.abs()).abs()
