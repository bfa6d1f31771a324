"""What people are shown of a row: an image, a text or named values. Images are decoded and encoded again."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from pars.data.columns import Columns
from pars.data.dataset import Inputs
from pars.data.images import formats
from pars.missing import is_missing

Size = Literal["thumb", "full"]
SIDE: dict[Size, int] = {"thumb": 256, "full": 1600}
MOST_PIXELS = 100_000_000  # of an image that is opened; larger ones are a mistake, or an attack
SMALL = 128  # pixels a side up to which an image is sent without loss
LONGEST_TEXT = 20_000  # characters shown
MOST_VALUES = 200  # of a feature vector


@dataclass(frozen=True)
class ImagePreview:
    """An encoded image, and what is wrong with it where it is only a placeholder."""

    content: bytes
    media_type: str
    problem: str = ""


@dataclass(frozen=True)
class TextPreview:
    text: str


@dataclass(frozen=True)
class RecordPreview:
    values: dict[str, str]


Preview = ImagePreview | TextPreview | RecordPreview


class Previews(Protocol):
    """The rows of a data set, as people see them."""

    @property
    def kind(self) -> Literal["image", "text", "record"]: ...

    def __len__(self) -> int: ...

    def preview(self, row: int, size: Size = "full") -> Preview:
        """What is shown of a row."""
        ...

    def text(self, row: int) -> str:
        """The words by which a row is found: its text, file name or values."""
        ...


class TextPreviews:
    kind: Literal["text"] = "text"

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def preview(self, row: int, size: Size = "full") -> TextPreview:
        text = self._texts[row]
        return TextPreview(text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…")

    def text(self, row: int) -> str:
        return self._texts[row]


class RecordPreviews:
    """Rows of a table, by the names of its columns."""

    kind: Literal["record"] = "record"

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return self._columns.n_rows

    def preview(self, row: int, size: Size = "full") -> RecordPreview:
        values = {name: column[row] for name, column in self._columns.items()}
        return RecordPreview({k: "" if is_missing(v) else str(v)[:LONGEST_TEXT] for k, v in values.items()})

    def text(self, row: int) -> str:
        return " · ".join(f"{name}: {value}" for name, value in self.preview(row).values.items())


class VectorPreviews:
    """Feature vectors [n, d]: their numbers."""

    kind: Literal["record"] = "record"

    def __init__(self, vectors: Inputs) -> None:
        self._vectors = vectors

    def __len__(self) -> int:
        return len(self._vectors)

    def preview(self, row: int, size: Size = "full") -> RecordPreview:
        vector = self._vectors[row]
        values = {f"x[{at}]": f"{value:.5g}" for at, value in enumerate(vector[:MOST_VALUES].tolist())}
        if len(vector) > MOST_VALUES:
            values["…"] = f"{len(vector)} values in all"
        return RecordPreview(values)

    def text(self, row: int) -> str:
        return " ".join(f"{value:.3g}" for value in self._vectors[row][:12].tolist())


class ImageArrayPreviews:
    """Images as arrays: uint8 [n, C, H, W]."""

    kind: Literal["image"] = "image"

    def __init__(self, images: Inputs) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def preview(self, row: int, size: Size = "full") -> ImagePreview:
        pixels = np.asarray(self._images[row], dtype=np.uint8)
        shown = pixels[0] if pixels.shape[0] == 1 else pixels[:3].transpose(1, 2, 0)
        return encoded(Image.fromarray(np.ascontiguousarray(shown)), size)

    def text(self, row: int) -> str:
        return f"row {row}"


class ImageFilePreviews:
    """Image files, whatever they hold: what cannot be shown becomes a placeholder that says why."""

    kind: Literal["image"] = "image"

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def preview(self, row: int, size: Size = "full") -> ImagePreview:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit is below
                with Image.open(self._files[row], formats=formats()) as opened:
                    width, height = opened.size
                    if width * height > MOST_PIXELS:
                        return placeholder(f"{width} × {height} pixels are too many to show")
                    opened.draft("RGB", (2 * SIDE[size], 2 * SIDE[size]))  # a JPEG is decoded at a fraction of its size
                    return encoded(ImageOps.exif_transpose(opened), size)
        except FileNotFoundError:
            return placeholder("the file is not there any more")
        except Image.DecompressionBombError:  # Pillow's limit, which a program may have changed, comes first
            return placeholder("the image has too many pixels to show")
        except Exception as error:  # Pillow raises nearly anything for damaged files
            return placeholder(f"the image cannot be read ({type(error).__name__})")

    def text(self, row: int) -> str:
        return self._files[row].name


def encoded(image: Image.Image, size: Size) -> ImagePreview:
    """An image as PNG if it is small, otherwise as JPEG, at most as large as `size` allows."""
    if image.mode.startswith(("I", "F")):
        low, high = image.getextrema()  # more than 8 bits: stretched to them
        image = image.point(lambda value: (value - low) * 255 / max(1, high - low)).convert("L")  # type: ignore[operator]
    image = image.convert("L" if image.mode in ("1", "L") else "RGBA" if image.has_transparency_data else "RGB")
    if image.mode == "RGBA":
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image).convert("RGB")
    image.info = {}  # comments and profiles of the file stay behind
    image.thumbnail((SIDE[size], SIDE[size]), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    if max(image.size) <= SMALL:
        image.save(out, "PNG")
        return ImagePreview(out.getvalue(), "image/png")
    image.save(out, "JPEG", quality=85)
    return ImagePreview(out.getvalue(), "image/jpeg")


def placeholder(problem: str) -> ImagePreview:
    """A gray tile with a message."""
    tile = Image.new("RGB", (256, 256), (200, 200, 200))
    draw = ImageDraw.Draw(tile)
    draw.rectangle((4, 4, 251, 251), outline=(90, 90, 90), width=3)
    words, lines = problem.replace("×", "x").split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 22:
            lines.append("")
        lines[-1] += f"{word} "
    draw.multiline_text((20, 92), "\n".join(lines), fill=(30, 30, 30), font=ImageFont.load_default(18))
    out = io.BytesIO()
    tile.save(out, "PNG")
    return ImagePreview(out.getvalue(), "image/png", problem)
