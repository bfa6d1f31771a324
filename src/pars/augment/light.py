"""The light strong view of images: a mild affine map, color jitter and a small cutout, in one pass over float pixels.

It is meant for small networks and short schedules, for which RandAugment with a 16-pixel cutout is too strong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from pars.augment.crop import PadMode, cut_out, draw_cutout
from pars.augment.view import Crop, Params, to_device
from pars.lazy import F, torch

if TYPE_CHECKING:
    from torch import Tensor

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Light:
    """A crop, then an affine map, color jitter and cutout; `strength` scales every range except that of the crop.

    At strength 0 it is the crop, bit for bit. The amounts of a sample are uniform in ± the range.
    Parameters, in addition to those of the crop: affine [n, 2, 3] (`affine_params`); gain, bias [n, C] (color);
    cutout [n, 4] (top, left, bottom, right).
    """

    crop: Crop
    mean: tuple[float, ...]  # per channel, for pixels in 0..1: fill of the cutout, fixed point of the contrast
    strength: float = 1.0
    cutout: int = 8  # side in pixels; the center is uniform, so a part may lie outside
    rotate: float = 15.0  # degrees, at strength 1 as all ranges
    shear: float = 0.1
    scale: float = 0.1  # fraction of the size
    translate: float = 0.05  # fraction of the size
    brightness: float = 0.15  # fraction of the range 0..255
    contrast: float = 0.25  # fraction, about the mean
    color: float = 0.1  # fraction, each channel by itself; color images only
    sampling: Literal["bilinear", "nearest"] = "bilinear"
    pad_mode: PadMode = "zero"  # pixels from outside the image

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        params = self.crop.draw(rng, n, shape)
        channels, height, width = shape = self.crop.output_shape(shape)
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
        params["cutout"] = draw_cutout(rng, side, shape)
        return params

    def apply(self, x: Tensor, params: Params) -> Tensor:
        params = to_device(params, x)
        x = self.crop.apply(x, params)
        if self.strength == 0:
            return x
        pixels = affine(x.float(), params["affine"], sampling=self.sampling, pad_mode=self.pad_mode)
        pixels.mul_(params["gain"][:, :, None, None]).add_(params["bias"][:, :, None, None])
        # Adding a half and truncating rounds at half the cost of round().
        out = pixels.add_(0.5).clamp_(0, 255).to(torch.uint8)
        fill = torch.tensor([round(255 * m) for m in self.mean], dtype=torch.uint8, device=x.device)
        return cut_out(out, params["cutout"], fill)


def affine_params(
    *, angle: Floats, shear: Floats, scale: Floats, right: Floats, down: Floats, size: tuple[int, int]
) -> Tensor:
    """Return affine maps from output to input positions [n, 2, 3], in float32.

    angle [n]: in radians, counter-clockwise. scale [n]: above 1 enlarges. right, down [n]: in pixels.
    Positions are (x, y) from -1 (center of the first pixel) to 1 (center of the last).
    """
    height, width = size
    cos, sin = np.cos(angle), np.sin(angle)
    # The image is scaled, sheared, rotated about its center, then shifted. This is the inverse, in pixels, y down:
    # [[1, -shear], [0, 1]] · [[cos, -sin], [sin, cos]] / scale, after undoing the shift.
    a, b = (cos - shear * sin) / scale, (-sin - shear * cos) / scale
    c, d = sin / scale, cos / scale
    # From pixels to -1…1; a side of one pixel has no extent.
    half_w, half_h = max(width - 1, 1) / 2, max(height - 1, 1) / 2
    x_row = np.stack([a, b * half_h / half_w, -(a * right + b * down) / half_w], axis=1)
    y_row = np.stack([c * half_w / half_h, d, -(c * right + d * down) / half_h], axis=1)
    return torch.from_numpy(np.stack([x_row, y_row], axis=1).astype(np.float32))


def affine(
    x: Tensor, theta: Tensor, *, sampling: Literal["bilinear", "nearest"] = "bilinear", pad_mode: PadMode = "zero"
) -> Tensor:
    """Sample each float image at the positions of its affine map (`affine_params`).

    Shapes: x [n, C, H, W], theta [n, 2, 3] -> [n, C, H, W].

    >>> x = torch.arange(4.0).view(1, 1, 2, 2)
    >>> affine(x, torch.tensor([[[0.0, -1, 0], [1, 0, 0]]]))[0, 0]                  # rotated by 90°
    tensor([[1., 3.],
            [0., 2.]])
    """
    height, width = x.shape[2:]
    down = torch.linspace(-1, 1, height, device=x.device)[:, None]
    right = torch.linspace(-1, 1, width, device=x.device)
    # Not F.affine_grid: its matrix product may round differently for another batch size, and is slower.
    along_x, along_y, offset = theta[:, :, :, None, None].unbind(2)  # each [n, 2, 1, 1]
    grid = (along_y * down + offset + along_x * right).permute(0, 2, 3, 1)  # [n, H, W, 2]
    padding = "zeros" if pad_mode == "zero" else "reflection"
    return F.grid_sample(x, grid, mode=sampling, padding_mode=padding, align_corners=True)
