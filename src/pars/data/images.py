"""Picture files: where they are, and their pixels."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from pars.errors import UserError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")
Pixels = npt.NDArray[np.uint8]


ORIENTATION = 0x0112
TURNED = (5, 6, 7, 8)  # EXIF orientations that exchange height and width


def read_image(
    path: Path,
    *,
    where: str = "",
    color: bool = False,
    gray: bool = False,
    size: int | tuple[int, int] | None = None,
) -> Pixels:
    """The pixels of a picture as a person sees it (turned as its EXIF note says): uint8 [C, H, W].

    A gray picture has one channel, any other three; with `color` all have three, with `gray` one. `size`, a side or
    (height, width): the picture is resized until it covers that, and the middle is taken. `where` names the row, for
    messages.
    """
    with _opened(path, where) as opened:
        upright = ImageOps.exif_transpose(opened)
        one = gray or (upright.mode == "L" and not color)
        picture = upright.convert("L" if one else "RGB")
    if size is not None:
        height, width = (size, size) if isinstance(size, int) else size
        if picture.size != (width, height):
            picture = ImageOps.fit(picture, (width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def image_file_shape(path: Path, *, where: str = "") -> tuple[int, int, int]:
    """Channels (1 or 3), height and width that `read_image` would find; reads no pixels."""
    with _opened(path, where) as opened:
        width, height = opened.size
        if opened.getexif().get(ORIENTATION) in TURNED:
            height, width = width, height
        return 1 if opened.mode == "L" else 3, height, width


@contextmanager
def _opened(path: Path, where: str) -> Iterator[Image.Image]:
    """An open picture; what goes wrong with it is a UserError that names it."""
    place = f"{where}: " if where else ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # what is beyond twice that is an error
            opened = Image.open(path)
        with opened:
            if opened.mode[0] in "IF":  # Pillow would make them white
                raise UserError(
                    f"{place}{path} has pixels of more than 8 bits ({opened.mode}), expected a picture of 8 bits"
                )
            yield opened
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{place}{path} does not exist") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:  # Pillow raises all of them
        raise UserError(f"{place}{path} cannot be read as a picture: {error}") from error


def image_folder(folder: Path) -> tuple[list[Path], list[str | None]]:
    """All pictures under a folder, and the class of each: the folder it is in, as in class/name.jpg.

    Pictures that lie in the folder itself have no class; then there may be no subfolders with pictures.
    """
    loose = _pictures(folder.iterdir())
    by_class = {inner.name: _pictures(inner.rglob("*")) for inner in sorted(folder.iterdir()) if _is_class(inner)}
    by_class = {name: found for name, found in by_class.items() if found}
    if not loose and not by_class:
        raise UserError(
            f"{folder}: no pictures in it ({', '.join(IMAGE_SUFFIXES)}), expected class/name.jpg or a table, "
            "see pars --help"
        )
    if loose and by_class:
        raise UserError(
            f"{folder}: {loose[0].name} lies beside the folders of classes {', '.join(list(by_class)[:5])}; "
            "expected every picture in the folder of its class"
        )
    if by_class and set(by_class) <= {"train", "training", "test", "val", "valid", "validation", "dev"}:
        raise UserError(
            f"{folder}: its folders are {', '.join(by_class)}, not classes; "
            f"give one of them: {folder / next(iter(by_class))}"
        )
    labeled = [(path, name) for name, found in by_class.items() for path in found]
    return [*loose, *(path for path, _ in labeled)], [*[None] * len(loose), *(name for _, name in labeled)]


def _is_class(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith((".", "__"))


def _pictures(paths: Iterable[Path]) -> list[Path]:
    return sorted(p for p in paths if p.suffix.lower() in IMAGE_SUFFIXES and not p.name.startswith(".") and p.is_file())
