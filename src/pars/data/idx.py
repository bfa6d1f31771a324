"""MNIST's idx files, gzipped or not; Fashion-MNIST (Xiao et al. 2017)."""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pars.data.dataset import Dataset, Split, channel_statistics, check_split
from pars.data.download import download as fetch
from pars.data.download import grouped
from pars.errors import UserError

UBYTE = 0x08  # the idx code of the only element type images and labels come in
MAX_BYTES = 1 << 30  # no honest file of this kind is larger; a header could promise any size

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")

FASHION_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
FASHION_URL = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")  # Debian package dataset-fashion-mnist
# Published MD5s of the four .gz files, checked after a download.
FASHION_GZ_MD5 = dict(
    zip(
        FILES,
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        strict=True,
    )
)
# MD5s of what is inside them, checked at every reading: Debian's .gz files have other headers and the same contents.
FASHION_MD5 = dict(
    zip(
        FILES,
        (
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "9018921c3c673c538a1fc5bad174d6f9",
            "8181f5470baa50b63fa0f6fddb340f0a",
            "15d484375f8d13e6eb1aabb0c3f46965",
        ),
        strict=True,
    )
)


def read_idx(path: Path, *, ndim: int, md5: str | None = None) -> npt.NDArray[np.uint8]:
    """The array in an idx file of unsigned bytes, unpacked when the name ends in .gz.

    No more is ever unpacked than the header promises, and the header may not promise more than MAX_BYTES.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    header_size = 4 + 4 * ndim
    try:
        with opener(path, "rb") as file:
            header = file.read(header_size)
            shape = _shape(header, ndim, path)
            size = math.prod(shape)
            data = file.read(size + 1)
    except FileNotFoundError:
        raise UserError(f"{path} is missing, expected an idx file") from None
    except PermissionError:
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error}); the download was cut off or damaged?") from None
    if len(data) != size:
        found = "more" if len(data) > size else grouped(len(data))
        raise UserError(f"{path}: {found} bytes after the header, expected {grouped(size)} for shape {list(shape)}")
    if md5 is not None:
        found = hashlib.md5(header + data, usedforsecurity=False).hexdigest()
        if found != md5:
            raise UserError(f"{path}: contents have MD5 {found}, expected {md5}; not the published file?")
    return np.frombuffer(bytearray(data), dtype=np.uint8).reshape(shape)  # bytearray: a writable array


def _shape(header: bytes, ndim: int, path: Path) -> tuple[int, ...]:
    magic = bytes([0, 0, UBYTE, ndim])
    if header[:4] != magic:
        raise UserError(
            f"{path}: begins with {header[:4].hex() or 'nothing'}, expected {magic.hex()} (idx, unsigned bytes, "
            f"{ndim} dimension(s)); images and labels mixed up, or another format?"
        )
    if len(header) != 4 + 4 * ndim:
        raise UserError(f"{path}: ends inside its header, expected {4 + 4 * ndim} bytes; the download was cut off?")
    shape = tuple(int(length) for length in np.frombuffer(header[4:], dtype=">u4"))
    if math.prod(shape) > MAX_BYTES:
        raise UserError(f"{path}: shape {list(shape)} is more than {grouped(MAX_BYTES)} bytes; a damaged header?")
    return shape


def find_idx(folder: Path, name: str) -> Path | None:
    """The file of that name in the folder, unpacked or as .gz."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def is_idx_folder(folder: Path) -> bool:
    """Has this folder the training images of an MNIST-like data set?"""
    return find_idx(folder, FILES[0]) is not None


def idx_folder(
    folder: Path, *, name: str, classes: tuple[str, ...] | None = None, md5s: Mapping[str, str] | None = None
) -> Dataset:
    """An MNIST-like data set: the four files of MNIST's names in one folder."""
    arrays = []
    for file, ndim in zip(FILES, (3, 1, 3, 1), strict=True):
        path = find_idx(folder, file)
        if path is None:
            raise UserError(
                f"{name}: {file} (or {file}.gz) is missing in {folder}; the four files of MNIST's names make one set"
            )
        arrays.append(read_idx(path, ndim=ndim, md5=None if md5s is None else md5s[file]))
    train_images, train_labels, test_images, test_labels = arrays
    if classes is None:
        classes = tuple(str(c) for c in range(int(max(train_labels.max(initial=0), test_labels.max(initial=0))) + 1))
    train = _split(train_images, train_labels)
    test = _split(test_images, test_labels)
    check_split(train, len(classes), f"{name} ({folder}, training)", training=True)
    check_split(test, len(classes), f"{name} ({folder}, test)")
    if test_images.shape[1:] != train_images.shape[1:]:
        raise UserError(
            f"{name} ({folder}): test images are {'×'.join(map(str, test_images.shape[1:]))} pixels, "
            f"expected {'×'.join(map(str, train_images.shape[1:]))} as in training"
        )
    return Dataset(name, train, test, classes, *channel_statistics(train_images[:, None]))


def _split(images: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8]) -> Split:
    return Split(images[:, None], labels.astype(np.int64), labels.astype(np.int64))


def fashion_mnist(root: Path, *, download: bool = True) -> Dataset:
    """Fashion-MNIST from root/fashion-mnist, else from Debian's package, else from its publisher."""
    folder = root / "fashion-mnist"
    if not is_idx_folder(folder) and is_idx_folder(DEBIAN_FOLDER):
        folder = DEBIAN_FOLDER
    elif download:
        for file in FILES:
            if find_idx(folder, file) is None:
                fetch(f"{FASHION_URL}{file}.gz", folder / f"{file}.gz", md5=FASHION_GZ_MD5[file])
    return idx_folder(folder, name="fashion-mnist", classes=FASHION_CLASSES, md5s=FASHION_MD5)
