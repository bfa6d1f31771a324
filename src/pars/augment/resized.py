"""Random-resized crop: the weak view of large pictures, resampled as Pillow does (`Image.resize`, bilinear).

Each direction is exactly Pillow's. Here columns always come before rows; Pillow picks an order by size, and where it
picks the other one a pixel may differ by one gray level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pars.augment.view import Params
from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

PRECISION = 22  # bits after the point of Pillow's 8-bit resampling weights
TRIES = 10


@dataclass(frozen=True, kw_only=True)
class ResizedCrop:
    """A box of random area and shape, resized to `size`×`size`, flipped left-right with probability 1/2.

    Parameters: box [n, 4] (top, left, bottom, right), flip [n].
    """

    size: int
    flip: bool = True
    area: tuple[float, float] = (0.08, 1.0)  # share of the picture
    ratio: tuple[float, float] = (3 / 4, 4 / 3)  # width / height

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        height, width = shape[1:]
        area = rng.uniform(*self.area, (n, TRIES)) * height * width
        ratio = np.exp(rng.uniform(math.log(self.ratio[0]), math.log(self.ratio[1]), (n, TRIES)))
        wide, high = np.rint(np.sqrt(area * ratio)), np.rint(np.sqrt(area / ratio))
        fits = (wide >= 1) & (high >= 1) & (wide <= width) & (high <= height)
        first = np.arange(n), fits.argmax(axis=1)  # the first try that fits; if none does, the whole picture
        wide = np.where(fits.any(axis=1), wide[first], width).astype(np.int64)
        high = np.where(fits.any(axis=1), high[first], height).astype(np.int64)
        top, left = rng.integers(0, height - high + 1), rng.integers(0, width - wide + 1)
        flip = rng.integers(0, 2, n).astype(bool) & self.flip
        box = np.stack([top, left, top + high, left + wide], axis=1)
        return {"box": torch.from_numpy(box), "flip": torch.from_numpy(flip)}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        box, flip = params["box"].cpu().numpy(), params["flip"].to(x.device)
        out = resample(x, box[:, 1], box[:, 3], self.size)
        out = resample(out.transpose(2, 3), box[:, 0], box[:, 2], self.size).transpose(2, 3)
        return torch.where(flip[:, None, None, None], out.flip(3), out)

    def shape_after(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], self.size, self.size)


def resample(x: Tensor, start: npt.NDArray[np.int64], stop: npt.NDArray[np.int64], size: int) -> Tensor:
    """Columns start..stop-1 of each image resized to `size` columns. Shapes: x [n, C, H, W], start, stop [n].

    A bilinear filter that widens where the picture shrinks, in Pillow's fixed point.

    >>> x = torch.tensor([[[[0, 100, 200, 40]]]], dtype=torch.uint8)
    >>> resample(x, np.array([0]), np.array([4]), 2).flatten().tolist()
    [71, 117]
    """
    index, weight = _taps(start, stop, size)
    shape = (len(x), x.shape[1], x.shape[2], size)
    total = torch.full(shape, 1 << (PRECISION - 1), dtype=torch.int32, device=x.device)
    for column, share in zip(index, weight, strict=True):
        at = torch.from_numpy(column).to(x.device)[:, None, None, :].expand(shape)
        total += x.gather(3, at).to(torch.int32).mul_(torch.from_numpy(share).to(x.device)[:, None, None, :])
    return (total >> PRECISION).clamp_(0, 255).to(torch.uint8)


def _taps(
    start: npt.NDArray[np.int64], stop: npt.NDArray[np.int64], size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The input columns that make each output column, and their weights: each [taps, n, size]."""
    length = (stop - start)[:, None]
    scale = length / size
    support = np.maximum(scale, 1.0)
    center = (np.arange(size) + 0.5) * scale
    first = np.maximum(np.floor(center - support + 0.5), 0)
    beyond = np.minimum(np.floor(center + support + 0.5), length)
    taps = np.arange(int((beyond - first).max(initial=1)))[:, None, None]
    # Reciprocals and this order of operations are Pillow's: a last bit decides a rounding now and then.
    weight = np.maximum(1 - np.abs((taps + first - center + 0.5) * (1.0 / support)), 0) * (first + taps < beyond)
    weight *= 1.0 / weight.sum(axis=0)
    index = start[:, None] + np.minimum(first + taps, length - 1)
    return index.astype(np.int64), np.floor(weight * (1 << PRECISION) + 0.5).astype(np.int32)
