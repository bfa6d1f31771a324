"""Picture files: where they are, and their pixels."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from pars.errors import UserError

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")
Pixels = npt.NDArray[np.uint8]


def read_picture(path: Path, *, where: str = "", colour: bool = False, size: int | None = None) -> Pixels:
    """The pixels of a picture as a person sees it (turned as its EXIF note says): uint8 [C, H, W].

    A grey picture has one channel, any other three; with `colour` all have three. `size`: the shorter side is resized
    to it and the middle size×size pixels are taken. `where` names the row, for messages.
    """
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
            upright = ImageOps.exif_transpose(opened)
            picture = upright.convert("L" if upright.mode == "L" and not colour else "RGB")
    except FileNotFoundError:
        raise UserError(f"{place}{path} does not exist") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:  # Pillow raises all of them
        raise UserError(f"{place}{path} cannot be read as a picture: {error}") from error
    if size is not None:
        picture = ImageOps.fit(picture, (size, size), Image.Resampling.BICUBIC)
    pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def picture_folder(folder: Path) -> tuple[list[Path], list[str | None]]:
    """All pictures under a folder, and the class of each: the folder it is in, as in class/name.jpg.

    Pictures that lie in the folder itself have no class; then there may be no subfolders with pictures.
    """
    loose = _pictures(folder.iterdir())
    by_class = {inner.name: _pictures(inner.rglob("*")) for inner in sorted(folder.iterdir()) if _is_class(inner)}
    by_class = {name: found for name, found in by_class.items() if found}
    if not loose and not by_class:
        raise UserError(
            f"{folder}: no pictures in it ({', '.join(PICTURES)}), expected class/name.jpg or a table, see pars --help"
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
    labelled = [(path, name) for name, found in by_class.items() for path in found]
    return [*loose, *(path for path, _ in labelled)], [*[None] * len(loose), *(name for _, name in labelled)]


def _is_class(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith((".", "__"))


def _pictures(paths: Iterable[Path]) -> list[Path]:
    return sorted(p for p in paths if p.suffix.lower() in PICTURES and not p.name.startswith(".") and p.is_file())
