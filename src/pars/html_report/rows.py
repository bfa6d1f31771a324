"""What a report shows of a row: a thumbnail inside the page, a text, or the cells of a table row."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from pars.data import read_image
from pars.errors import UserError

SIDE = 112  # pixels of a thumbnail's longer side
SMALL = 48  # up to this many pixels an image is stored as it is, and the browser enlarges it
MOST_TEXT = 400  # characters
MOST_CELLS = 12


@dataclass(frozen=True)
class ShownRow:
    """A row for the template: exactly one of image (a data: URI), text and record is there; else it is a number."""

    image: str | None = None
    text: str | None = None
    record: tuple[tuple[str, str], ...] | None = None
    pixelated: bool = False  # a small image that the browser enlarges
    note: str = ""  # what went wrong, or a file name


@dataclass(frozen=True)
class Rows:
    """The rows of a data set as people know them.

    kind: what `shown` gives of them. values: texts, paths of images, or pixels [n, C, H, W].
    columns: the cells of table rows by column.
    """

    kind: Literal["text", "image", "pixels", "columns", "number"] = "number"
    values: Sequence[str] | npt.NDArray[Any] | None = None
    columns: Mapping[str, Any] | None = None

    @property
    def is_image(self) -> bool:
        return self.kind in ("image", "pixels")

    def shown(self, row: int) -> ShownRow:
        """What a row looks like; an image that cannot be read is named, not fatal."""
        if self.kind == "columns" and self.columns is not None:
            cells = [(name, printed(values[row], 60)) for name, values in self.columns.items()]
            return ShownRow(record=tuple((printed(name, 40), value) for name, value in cells[:MOST_CELLS]))
        if self.values is None or self.kind == "number":
            return ShownRow()
        if self.kind == "text":
            return ShownRow(text=printed(self.values[row], MOST_TEXT))
        if self.kind == "pixels":
            return _image(np.asarray(self.values[row], dtype=np.uint8))
        path = Path(str(self.values[row]))
        try:
            return _image(read_image(path), printed(path.name, 60))
        except UserError:
            return ShownRow(note=printed(f"{path.name} cannot be read", 80))


def _image(pixels: npt.NDArray[np.uint8], note: str = "") -> ShownRow:
    uri, pixelated = thumbnail(pixels)
    return ShownRow(image=uri, pixelated=pixelated, note=note)


def thumbnail(pixels: npt.NDArray[np.uint8]) -> tuple[str, bool]:
    """The image [C, H, W] as a data: URI, and whether it is so small that the browser should enlarge its pixels."""
    gray = len(pixels) != 3
    image = Image.fromarray(np.ascontiguousarray(pixels[0] if gray else pixels.transpose(1, 2, 0)))
    small = max(image.size) <= SMALL
    out = io.BytesIO()
    if small:
        image.save(out, "PNG", optimize=True)
    else:
        image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        image.save(out, "JPEG", quality=75, optimize=True)
    kind = "png" if small else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode('ascii')}", small


def printed(value: Any, most: int) -> str:
    """A value as text of at most so many characters, without what a page or UTF-8 cannot hold.

    >>> printed("a\\x00b\\ud800c\\nd", 20), printed("abcdef", 4), printed(None, 4)
    ('a\ufffdb\ufffdc\\nd', 'abc…', '')
    """
    text = "" if value is None or (isinstance(value, float) and np.isnan(value)) else str(value)
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return "".join(c if c in "\n\t" or not _is_control(c) else "\N{REPLACEMENT CHARACTER}" for c in cut)


def _is_control(c: str) -> bool:
    """Controls of C0 and C1, and halves of surrogate pairs."""
    return c < " " or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\udfff"
