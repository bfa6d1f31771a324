"""Reading .npy and .npz files that may be damaged or hostile: plain arrays, or an error that names the file."""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pars.errors import UserError

Array = npt.NDArray[np.generic]


def read_npy(path: Path) -> Array:
    """The array of an .npy file, as a read-only memory map."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except PermissionError:
        raise
    except Exception as error:  # a damaged header may raise anything, from SyntaxError to MemoryError
        raise UserError(_reason(error, str(path))) from None
    return _plain(array, str(path))


def read_npz(path: Path, wanted: Collection[str]) -> dict[str, Array]:
    """The arrays of an .npz file by name; empty ones for those not wanted, which may be large, or objects."""
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise zipfile.BadZipFile("no zip archive")  # numpy would take it for a pickle, and speak of that
        archive = np.load(path, allow_pickle=False)
        names = archive.files
    except PermissionError:
        raise
    except Exception as error:
        raise UserError(f"{path}: not a complete .npz file ({error}); cut off, or written by something else?") from None
    content: dict[str, Array] = {}
    with archive:
        for name in names:
            content[name] = _member(archive, name, f"{path}: {name}") if name in wanted else np.zeros(0)
    return content


def _member(archive: np.lib.npyio.NpzFile, name: str, where: str) -> Array:
    try:
        array = archive[name]
    except Exception as error:  # encrypted, an unknown or damaged compression, a header that asks for all memory
        raise UserError(_reason(error, where)) from None
    return _plain(array, where)


def _plain(array: object, where: str) -> Array:
    if isinstance(array, np.ndarray):
        return array
    raise UserError(f"{where}: not an array in numpy's format; cut off, or written by something else?")


def _reason(error: Exception, where: str) -> str:
    if isinstance(error, ValueError) and ("pickle" in str(error) or "Python objects" in str(error)):
        return (
            f"{where}: holds Python objects, expected plain numbers or text; rows of unequal length, or mixed types? "
            "(numpy: x.astype(np.float32), y.astype(str))"
        )
    return f"{where}: cannot be read ({error or type(error).__name__}); cut off, or written by something else?"
