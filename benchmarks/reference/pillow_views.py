"""Weak and strong views as FixMatch's data loader makes them: Pillow, one image at a time."""

from __future__ import annotations

import functools
import random

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw
from pillow_operations import operate

from pars.augment.operations import N_RANDAUGMENT, OPERATIONS, fixmatch_amounts

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)
Pixels = npt.NDArray[np.uint8]


def pillow_weak(pixels: Pixels) -> Image.Image:
    """Flip, pad by reflection, crop: FixMatch's, by Pillow and numpy as its data loader does. pixels [H, W, C]."""
    image = Image.fromarray(pixels)
    if random.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    pad, (height, width) = len(pixels) // 8, pixels.shape[:2]
    padded = np.pad(np.asarray(image), ((pad, pad), (pad, pad), (0, 0)), mode="reflect")
    top, left = random.randint(0, 2 * pad), random.randint(0, 2 * pad)
    return Image.fromarray(padded).crop((left, top, left + width, top + height))


@functools.cache
def amounts(side: int, sign: int) -> list[list[float]]:
    """Amounts by operation and level, made once: the reference does not pay for our arrays."""
    op, level = np.indices((N_RANDAUGMENT, 10))
    table = fixmatch_amounts(op, level / 10, np.full(op.shape, float(sign)), (3, side, side), translate=0.3)
    return [[float(amount) for amount in row] for row in table]


def pillow_strong(pixels: Pixels) -> Image.Image:
    """The weak view, two operations each done half of the time, a gray square."""
    return randaugmented(pillow_weak(pixels))


def randaugmented(image: Image.Image) -> Image.Image:
    """Two operations each done half of the time, a gray square."""
    width, height = image.size
    for number in random.choices(range(N_RANDAUGMENT), k=2):
        level, sign = random.randint(1, 9), random.choice((-1, 1))
        if random.random() < 0.5:
            image = operate(image, OPERATIONS[number], amounts(height, sign)[number][level])
    side = height // 2
    left, top = random.randrange(width) - side // 2, random.randrange(height) - side // 2
    image = image.copy()
    ImageDraw.Draw(image).rectangle((left, top, left + side - 1, top + side - 1), (127, 127, 127))
    return image


def to_tensor(image: Image.Image) -> torch.Tensor:
    """What a data loader makes of an image: [C, H, W] in 0..1, then a normalized copy."""
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().to(torch.float32).div(255)
    return pixels.clone().sub_(torch.tensor(MEAN)[:, None, None]).div_(torch.tensor(STD)[:, None, None])
