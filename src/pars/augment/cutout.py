"""Cutout: a square of each image painted over (DeVries & Taylor 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pars.augment.view import Crop, Params, one_by_one, to_device
from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Cutout:
    """The weak view, then a square in the mean color.

    Parameters, besides those of the crop: cutout [n, 4] (top, left, bottom, right).
    """

    crop: Crop  # crop and flip
    mean: tuple[float, ...]  # per channel, in units of 0..1
    side: int = 8  # in pixels

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        params = self.crop.draw(rng, n, shape)
        return params | {"cutout": cutout_boxes(rng, np.full(n, self.side), self.crop.shape_after(shape))}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        params = to_device(params, x)
        out = self.crop.apply(x, params)
        if out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
            out = out.clone()  # a view that changes nothing hands on the samples themselves, and painting is in place
        fill = torch.tensor([round(255 * m) for m in self.mean], dtype=torch.uint8, device=x.device)
        return cut_out(out, params["cutout"], fill)


def cutout_boxes(rng: np.random.Generator, side: npt.NDArray[np.int64], shape: tuple[int, ...]) -> Tensor:
    """Squares of the given sides [n] as boxes [n, 4]; the center is anywhere, so a part may lie outside."""
    start = rng.integers(0, shape[1:], (len(side), 2)) - side[:, None] // 2
    return torch.from_numpy(np.concatenate([start, start + side[:, None]], axis=1))


def cut_out(x: Tensor, box: Tensor, fill: Tensor) -> Tensor:
    """Fill a rectangle of each image, in place.

    Shapes: x [n, C, H, W], box [n, 4] (top, left, bottom, right), fill [C].
    """
    height, width = x.shape[2:]
    if one_by_one(x):
        gray = fill.numpy()[:, None, None]
        for image, (top, left, bottom, right) in zip(x.numpy(), box.clamp(min=0).tolist(), strict=True):
            image[:, top:bottom, left:right] = gray
        return x
    y, x_across = torch.arange(height, device=x.device), torch.arange(width, device=x.device)
    inside_y = (y >= box[:, 0:1]) & (y < box[:, 2:3])  # [n, H]
    inside_x = (x_across >= box[:, 1:2]) & (x_across < box[:, 3:4])  # [n, W]
    # As bytes of 0 and 1, so that painting is two passes of byte arithmetic; torch.where is ten times slower on a CPU.
    inside = (inside_y[:, None, :, None] & inside_x[:, None, None, :]).view(torch.uint8)
    return x.mul_(1 - inside).add_(fill[:, None, None] * inside)
