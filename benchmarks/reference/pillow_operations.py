"""The operations by Pillow, one image at a time: the independent reference."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageEnhance, ImageOps

Pixels = npt.NDArray[np.uint8]


def to_pillow(x: Pixels) -> Image.Image:
    """[C, H, W] -> an L or RGB picture."""
    return Image.fromarray(x[0]) if len(x) == 1 else Image.fromarray(np.ascontiguousarray(x.transpose(1, 2, 0)))


def from_pillow(picture: Image.Image) -> Pixels:
    pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def operate(picture: Image.Image, name: str, amount: float, fill: int = 0) -> Image.Image:
    gray = fill if picture.mode == "L" else (fill,) * 3
    width, height = picture.size

    def affine(*data: float) -> Image.Image:
        return picture.transform((width, height), Image.Transform.AFFINE, data, fillcolor=gray)

    match name:
        case "autocontrast":
            return ImageOps.autocontrast(picture)
        case "equalize":
            return ImageOps.equalize(picture)
        case "invert":
            return ImageOps.invert(picture)
        case "posterize":
            return ImageOps.posterize(picture, int(amount))
        case "solarize":
            return ImageOps.solarize(picture, int(amount))
        case "brightness":
            return ImageEnhance.Brightness(picture).enhance(amount)
        case "color":
            return ImageEnhance.Color(picture).enhance(amount)
        case "contrast":
            return ImageEnhance.Contrast(picture).enhance(amount)
        case "sharpness":
            return ImageEnhance.Sharpness(picture).enhance(amount)
        case "rotate":
            return picture.rotate(amount, fillcolor=gray)
        case "shear-x":
            return affine(1, amount, 0, 0, 1, 0)
        case "shear-y":
            return affine(1, 0, 0, amount, 1, 0)
        case "translate-x":
            return affine(1, 0, amount, 0, 1, 0)
        case "translate-y":
            return affine(1, 0, 0, 0, 1, amount)
        case _:
            assert name == "identity"
            return picture
