"""A contact sheet: pictures in rows, words under each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

MARGIN = 6
SMALLEST = 96  # pixels a side: small pictures are enlarged to about this, each pixel a square
LARGEST = 256
FONT_SIZE = 11


@dataclass(frozen=True, eq=False)
class Tile:
    """One picture [C, H, W] uint8 and the lines under it."""

    pixels: npt.NDArray[np.uint8]
    title: str
    lines: Sequence[str] = ()


def contact_sheet(rows: Sequence[Sequence[Tile]]) -> Image.Image:
    """All tiles of all rows on white; rows may differ in length."""
    font = ImageFont.load_default(FONT_SIZE)
    line_height = FONT_SIZE + 3
    pictures = [[_shown(tile.pixels) for tile in row] for row in rows]
    text_width = max(int(font.getlength(line)) for row in rows for tile in row for line in (tile.title, *tile.lines))
    width = max([text_width, *(p.width for row in pictures for p in row)]) + MARGIN
    heights = [
        max(p.height for p in row) + line_height * (1 + max(len(tile.lines) for tile in tiles)) + 2 * MARGIN
        for row, tiles in zip(pictures, rows, strict=True)
    ]
    sheet = Image.new("RGB", (MARGIN + width * max(map(len, rows)), MARGIN + sum(heights)), "white")
    draw = ImageDraw.Draw(sheet)
    y = MARGIN
    for row, tiles, height in zip(pictures, rows, heights, strict=True):
        tallest = max(p.height for p in row)
        for i, (picture, tile) in enumerate(zip(row, tiles, strict=True)):
            x = MARGIN + i * width
            sheet.paste(picture, (x, y))
            draw.text((x, y + tallest + 1), tile.title, fill="black", font=font)
            for k, line in enumerate(tile.lines, start=1):
                draw.text((x, y + tallest + 1 + k * line_height), line, fill=(90, 90, 90), font=font)
        y += height
    return sheet


def _shown(pixels: npt.NDArray[np.uint8]) -> Image.Image:
    picture = Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    times = max(1, -(-SMALLEST // max(picture.size)))
    picture = picture.resize((picture.width * times, picture.height * times), Image.Resampling.NEAREST)
    picture.thumbnail((LARGEST, LARGEST))
    return picture.convert("RGB")
