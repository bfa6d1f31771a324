"""The first strong view of images: everything a little, nothing too much.

For a small network and a short schedule RandAugment with a 16-pixel cutout is too much at once (measured there); this
view adds a small cutout, a mild affine map and color jitter to the weak view, in one pass over float pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from pars.augment.crop import PadMode
from pars.augment.cutout import cut_out, cutout_boxes
from pars.augment.view import Crop, Params, to_device
from pars.lazy import F, torch

if TYPE_CHECKING:
    from torch import Tensor

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Light:
    """Crop and flip, then affine map, color and cutout; `strength` scales every range but the crop and the flip.

    At strength 0 it is the weak view, bit for bit. Parameters, besides those of the crop:
    affine [n, 2, 3]: output to input position, both in (-1, 1) across the image; gain, bias [n, C]: color;
    cutout [n, 4]: top, left, bottom, right.
    Each sample's amounts are uniform in ± the range; the ranges are those of strength 1.
    """

    crop: Crop  # crop and flip
    mean: tuple[float, ...]  # per channel, in units of 0..1: the fill of the cutout, the fixed point of contrast
    strength: float = 1.0
    cutout: int = 8  # side, in pixels; the center is anywhere, so a part may lie outside
    rotate: float = 15.0  # degrees
    shear: float = 0.1
    scale: float = 0.1  # ± share of the size
    translate: float = 0.05  # ± share of the size
    brightness: float = 0.15  # ± share of the range 0..255
    contrast: float = 0.25  # ± share, about the mean
    color: float = 0.1  # ± share, each channel by itself; color images only
    sampling: Literal["bilinear", "nearest"] = "bilinear"
    pad_mode: PadMode = "zero"  # what lies outside

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        params = self.crop.draw(rng, n, shape)
        channels, height, width = shape = self.crop.shape_after(shape)
        amounts = self.strength * rng.uniform(-1, 1, (n, 7 + channels))
        angle, shear, scale, right, down, brightness, contrast = amounts[:, :7].T
        params["affine"] = affine_params(
            angle=np.deg2rad(self.rotate) * angle,
            shear=self.shear * shear,
            scale=1 + self.scale * scale,
            right=self.translate * width * right,
            down=self.translate * height * down,
            size=(height, width),
        )
        color = 1 + (self.color if channels > 1 else 0) * amounts[:, 7:]
        gain = (1 + self.contrast * contrast[:, None]) * color
        mean = 255 * np.asarray(self.mean)
        params["gain"] = torch.from_numpy(gain.astype(np.float32))
        params["bias"] = torch.from_numpy(
            (mean - gain * mean + 255 * self.brightness * brightness[:, None]).astype(np.float32)
        )
        side = np.full(n, round(self.strength * self.cutout))
        params["cutout"] = cutout_boxes(rng, side, shape)
        return params

    def apply(self, x: Tensor, params: Params) -> Tensor:
        params = to_device(params, x)
        x = self.crop.apply(x, params)
        if self.strength == 0:
            return x
        pixels = affine(x.float(), params["affine"], sampling=self.sampling, pad_mode=self.pad_mode)
        pixels.mul_(params["gain"][:, :, None, None]).add_(params["bias"][:, :, None, None])
        # Adding a half and cutting off is rounding; half the cost of round().
        out = pixels.add_(0.5).clamp_(0, 255).to(torch.uint8)
        fill = torch.tensor([round(255 * m) for m in self.mean], dtype=torch.uint8, device=x.device)
        return cut_out(out, params["cutout"], fill)


def affine_params(
    *, angle: Floats, shear: Floats, scale: Floats, right: Floats, down: Floats, size: tuple[int, int]
) -> Tensor:
    """Return the maps from output to input positions [n, 2, 3], in float32.

    angle is in radians, counter-clockwise; scale > 1 makes things larger; right and down are in pixels.
    Positions are (x, y) in -1 (center of the first pixel) … 1 (center of the last).
    """
    height, width = size
    cos, sin = np.cos(angle), np.sin(angle)
    # The picture is scaled, sheared, rotated about its center, then moved. This is the inverse, in pixels, y down:
    # [[1, -shear], [0, 1]] · [[cos, -sin], [sin, cos]] / scale, after undoing the move.
    a, b = (cos - shear * sin) / scale, (-sin - shear * cos) / scale
    c, d = sin / scale, cos / scale
    # From pixels to -1…1, where a one-pixel side has no extent.
    half_w, half_h = max(width - 1, 1) / 2, max(height - 1, 1) / 2
    x_row = np.stack([a, b * half_h / half_w, -(a * right + b * down) / half_w], axis=1)
    y_row = np.stack([c * half_w / half_h, d, -(c * right + d * down) / half_h], axis=1)
    return torch.from_numpy(np.stack([x_row, y_row], axis=1).astype(np.float32))


def affine(
    x: Tensor, theta: Tensor, *, sampling: Literal["bilinear", "nearest"] = "bilinear", pad_mode: PadMode = "zero"
) -> Tensor:
    """Sample each float image at its own affine positions. Shapes: x [n, C, H, W], theta [n, 2, 3] -> [n, C, H, W].

    >>> x = torch.arange(4.0).view(1, 1, 2, 2)
    >>> affine(x, torch.tensor([[[0.0, -1, 0], [1, 0, 0]]]))[0, 0]                  # a quarter turn
    tensor([[1., 3.],
            [0., 2.]])
    """
    height, width = x.shape[2:]
    down = torch.linspace(-1, 1, height, device=x.device)[:, None]
    right = torch.linspace(-1, 1, width, device=x.device)
    # Written out, not F.affine_grid: a matrix product may round otherwise for another batch size, and is slower.
    along_x, along_y, offset = theta[:, :, :, None, None].unbind(2)  # each [n, 2, 1, 1]
    grid = (along_y * down + offset + along_x * right).permute(0, 2, 3, 1)  # [n, H, W, 2]
    padding = "zeros" if pad_mode == "zero" else "reflection"
    return F.grid_sample(x, grid, mode=sampling, padding_mode=padding, align_corners=True)
