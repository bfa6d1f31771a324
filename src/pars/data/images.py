"""Image files: where they are, and their pixels."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from pars.errors import UserError, one_line

log = logging.getLogger(__name__)

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # Pillow would run Ghostscript on an EPS called .png
NOT_MEANT = ("Thumbs.db", "desktop.ini")  # what systems put into folders
Pixels = npt.NDArray[np.uint8]


class UnreadableImage(UserError):
    """An image that is missing, cut off, or of a format that is not read."""


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
    """The pixels of an image as a person sees it (turned as its EXIF note says): uint8 [C, H, W].

    A gray image has one channel, any other three; with `color` all have three, with `gray` one. `size`, a side or
    (height, width): the image is resized until it covers that, and the middle is taken. `where` names the row, for
    messages.
    """
    with _opened(path, where) as opened:
        return image_pixels(opened, f"{where}: {path}" if where else str(path), color=color, gray=gray, size=size)


def image_pixels(
    opened: Image.Image,
    place: str,
    *,
    color: bool = False,
    gray: bool = False,
    size: int | tuple[int, int] | None = None,
) -> Pixels:
    """The pixels of an image that Pillow has opened, as `read_image` returns them; `place` is for messages."""
    upright = ImageOps.exif_transpose(opened)
    if upright.mode[0] in "IF":
        upright = _eight_bits(upright, place)
    one = gray or (upright.mode == "L" and not color)
    image = upright.convert("L" if one else "RGB")
    if size is not None:
        height, width = (size, size) if isinstance(size, int) else size
        if image.size != (width, height):
            image = ImageOps.fit(image, (width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def image_file_shape(path: Path, *, where: str = "") -> tuple[int, int, int]:
    """Channels (1 or 3), height and width that `read_image` would find; reads no pixels."""
    with _opened(path, where) as opened:
        width, height = opened.size
        if opened.getexif().get(ORIENTATION) in TURNED:
            height, width = width, height
        return 1 if opened.mode[0] in "LIF" and opened.mode != "LAB" else 3, height, width


def unreadable(paths: Sequence[Path]) -> dict[int, str]:
    """The rows whose image cannot be read, with the reason: each image is decoded."""
    found = {}
    for row, path in enumerate(paths):
        try:
            read_image(path)
        except UserError as error:
            found[row] = str(error)
    return found


def listed(bad: Mapping[int, str], place: Callable[[int], str], most: int = 10) -> str:
    """Unreadable images for a message: the row and reason of the first ones, and how many more there are."""
    named = "; ".join(f"{place(row)}: {one_line(UserError(reason))}" for row, reason in list(bad.items())[:most])
    return named + (f"; and {len(bad) - most} more" if len(bad) > most else "")


def all_unreadable(error: UnreadableImage, paths: Sequence[Path], place: Callable[[int], str]) -> UnreadableImage:
    """The error of one image, made to name all of them that cannot be read."""
    bad = unreadable(paths)
    if len(bad) < 2:
        return UnreadableImage(f"{error}; mend or remove it, or leave it out with --skip-unreadable")
    return UnreadableImage(
        f"{len(bad)} of {len(paths)} images cannot be read: {listed(bad, place)}; mend or remove them, or leave them "
        "out with --skip-unreadable"
    )


def _eight_bits(image: Image.Image, where: str) -> Image.Image:
    """Gray pixels of 16 bits scaled to 8 (Pillow would clip them to white); 65535 is white."""
    pixels = np.asarray(image)
    if pixels.dtype.kind == "f" or pixels.min() < 0 or pixels.max() > 65535:
        raise UnreadableImage(
            f"{where} has pixels from {pixels.min():g} to {pixels.max():g}, expected 8 or 16 bits, 0 to 65535"
        )
    return Image.fromarray(((pixels.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8))


def formats() -> list[str]:
    """Those of `FORMATS` that this build of Pillow reads."""
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]


@contextmanager
def _opened(path: Path, where: str) -> Iterator[Image.Image]:
    """An open image; what goes wrong with it is a UserError that names it."""
    place = f"{where}: " if where else ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # what is beyond twice that is an error
            opened = Image.open(path, formats=formats())
        with opened:
            yield opened
    except UserError:
        raise
    except FileNotFoundError:
        raise UnreadableImage(f"{place}{path} does not exist") from None
    except Exception as error:  # Pillow raises all kinds: OSError, ValueError, SyntaxError, struct.error, KeyError, …
        raise UnreadableImage(f"{place}{path} cannot be read as an image: {one_line(error)}") from error


def image_folder(folder: Path) -> tuple[list[Path], list[str | None]]:
    """All images under a folder, and the class of each: the folder it is in, as in class/name.jpg.

    Images that lie in the folder itself have no class; then there may be no subfolders with images.
    """
    _warn_of_others(folder)
    loose = _images(folder.iterdir())
    by_class = {inner.name: _images(inner.rglob("*")) for inner in sorted(folder.iterdir()) if _is_class(inner)}
    by_class = {name: found for name, found in by_class.items() if found}
    if not loose and not by_class:
        raise UserError(
            f"{folder}: no images in it ({', '.join(IMAGE_SUFFIXES)}), expected class/name.jpg or a table, "
            "see pars --help"
        )
    if loose and by_class:
        raise UserError(
            f"{folder}: {loose[0].name} lies beside the folders of classes {', '.join(list(by_class)[:5])}; "
            "expected every image in the folder of its class"
        )
    if by_class and set(by_class) <= {"train", "training", "test", "val", "valid", "validation", "dev"}:
        raise UserError(
            f"{folder}: its folders are {', '.join(by_class)}, not classes; "
            f"give one of them: {folder / next(iter(by_class))}"
        )
    labeled = [(path, name) for name, found in by_class.items() for path in found]
    return [*loose, *(path for path, _ in labeled)], [*[None] * len(loose), *(name for _, name in labeled)]


def _warn_of_others(folder: Path) -> None:
    """Say what is not read: dangling links, pipes, folders named like images, files of other formats."""
    others = {}
    for path in sorted(folder.rglob("*")):
        name, is_image = path.relative_to(folder), path.suffix.lower() in IMAGE_SUFFIXES
        if any(part.startswith((".", "__")) for part in name.parts) or name.name in NOT_MEANT:
            continue
        if path.is_dir():
            if is_image:
                others[name] = "a folder"
        elif path.is_symlink() and not path.exists():
            others[name] = "a link to a file that does not exist"
        elif not path.is_file():
            others[name] = "not a plain file"
        elif not is_image:
            others[name] = f"{path.suffix or 'no suffix'}, not an image format that is read"
    if others:
        named = "; ".join(f"{name} ({what})" for name, what in list(others.items())[:5])
        more = f"; and {len(others) - 5} more" if len(others) > 5 else ""
        log.warning("%s: %d entries are not read as images: %s%s", folder, len(others), named, more)


def _is_class(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith((".", "__"))


def _images(paths: Iterable[Path]) -> list[Path]:
    return sorted(p for p in paths if p.suffix.lower() in IMAGE_SUFFIXES and not p.name.startswith(".") and p.is_file())
