"""Contact sheets: images in rows, with captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

MARGIN = 6
SMALLEST = 96  # pixels: smaller images are enlarged by a whole factor
LARGEST = 256
FONT_SIZE = 11


@dataclass(frozen=True, eq=False)
class Tile:
    """An image [C, H, W] uint8, its title, and further lines of its caption."""

    pixels: npt.NDArray[np.uint8]
    title: str
    lines: Sequence[str] = ()


def contact_sheet(rows: Sequence[Sequence[Tile]]) -> Image.Image:
    """Return one image with all tiles, captions below; rows may differ in length.

    >>> contact_sheet([[Tile(np.zeros((3, 32, 32), np.uint8), "original")]]).size
    (108, 128)
    """
    font = ImageFont.load_default(FONT_SIZE)
    line_height = FONT_SIZE + 3
    images = [[_enlarged(tile.pixels) for tile in row] for row in rows]
    text_width = max(int(font.getlength(line)) for row in rows for tile in row for line in (tile.title, *tile.lines))
    width = max([text_width, *(p.width for row in images for p in row)]) + MARGIN
    heights = [
        max(p.height for p in row) + line_height * (1 + max(len(tile.lines) for tile in tiles)) + 2 * MARGIN
        for row, tiles in zip(images, rows, strict=True)
    ]
    sheet = Image.new("RGB", (MARGIN + width * max(map(len, rows)), MARGIN + sum(heights)), "white")
    draw = ImageDraw.Draw(sheet)
    y = MARGIN
    for row, tiles, height in zip(images, rows, heights, strict=True):
        tallest = max(p.height for p in row)
        for i, (image, tile) in enumerate(zip(row, tiles, strict=True)):
            x = MARGIN + i * width
            sheet.paste(image, (x, y))
            draw.text((x, y + tallest + 1), tile.title, fill="black", font=font)
            for k, line in enumerate(tile.lines, start=1):
                draw.text((x, y + tallest + 1 + k * line_height), line, fill=(90, 90, 90), font=font)
        y += height
    return sheet


def _enlarged(pixels: npt.NDArray[np.uint8]) -> Image.Image:
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    times = max(1, -(-SMALLEST // max(image.size)))
    image = image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST)
    image.thumbnail((LARGEST, LARGEST))
    return image.convert("RGB")
