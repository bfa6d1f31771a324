"""The operations by Pillow, one image at a time: the independent reference."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageEnhance, ImageOps

Pixels = npt.NDArray[np.uint8]


def to_pillow(x: Pixels) -> Image.Image:
    """[C, H, W] -> an L or RGB image."""
    return Image.fromarray(x[0]) if len(x) == 1 else Image.fromarray(np.ascontiguousarray(x.transpose(1, 2, 0)))


def from_pillow(image: Image.Image) -> Pixels:
    pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def operate(image: Image.Image, name: str, amount: float, fill: int = 0) -> Image.Image:
    gray = fill if image.mode == "L" else (fill,) * 3
    width, height = image.size

    def affine(*data: float) -> Image.Image:
        return image.transform((width, height), Image.Transform.AFFINE, data, fillcolor=gray)

    match name:
        case "autocontrast":
            return ImageOps.autocontrast(image)
        case "equalize":
            return ImageOps.equalize(image)
        case "invert":
            return ImageOps.invert(image)
        case "posterize":
            return ImageOps.posterize(image, int(amount))
        case "solarize":
            return ImageOps.solarize(image, int(amount))
        case "brightness":
            return ImageEnhance.Brightness(image).enhance(amount)
        case "color":
            return ImageEnhance.Color(image).enhance(amount)
        case "contrast":
            return ImageEnhance.Contrast(image).enhance(amount)
        case "sharpness":
            return ImageEnhance.Sharpness(image).enhance(amount)
        case "rotate":
            return image.rotate(amount, fillcolor=gray)
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
            return image
