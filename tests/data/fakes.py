"""Small files in the publishers' formats, written without the code that reads them."""

from __future__ import annotations

import gzip
import hashlib
import pickle
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pars.data.cifar import CIFAR10, CIFAR100, Cifar, File, Layout

ROWS = 20


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def fake_cifar(root: Path, *, fine: bool = False, binary: bool = False) -> tuple[Cifar, dict[str, tuple[int, bytes]]]:
    """Write a CIFAR of 20 rows a file; return its description, MD5s included, and each file's first (label, image)."""
    real = CIFAR100 if fine else CIFAR10
    layout = real.layouts[1 if binary else 0]
    folder = root / layout.folder
    folder.mkdir(parents=True)
    firsts = {}
    draw = np.random.default_rng(7)
    for file in (*layout.train, *layout.test):
        images = draw.integers(0, 256, (ROWS, 3072), dtype=np.uint8)
        labels = draw.permutation(np.arange(ROWS) % real.n_classes)
        firsts[file.name] = (int(labels[0]), images[0].tobytes())
        write = _write_binary if binary else _write_python
        write(folder / file.name, images, labels, fine)
    names = [f"class{c}" for c in range(real.n_classes)]
    if binary:
        (folder / layout.names.name).write_text("\n".join(names) + "\n\n")
    else:
        key = b"fine_label_names" if fine else b"label_names"
        (folder / layout.names.name).write_bytes(pickle.dumps({key: [n.encode() for n in names]}, protocol=2))
    return replace(real, layouts=(described(layout, folder),)), firsts


def described(layout: Layout, folder: Path) -> Layout:
    """The layout with the row counts and MD5s of the files that are in the folder now."""

    def describe(file: File) -> File:
        return File(file.name, ROWS if file.rows else 0, md5(folder / file.name))

    return replace(
        layout,
        train=tuple(describe(file) for file in layout.train),
        test=tuple(describe(file) for file in layout.test),
        names=describe(layout.names),
    )


def _write_python(path: Path, images: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64], fine: bool) -> None:
    content: dict[bytes, object] = {b"data": images, b"filenames": [b"a.png"] * len(images)}
    if fine:
        content |= {b"fine_labels": labels.tolist(), b"coarse_labels": [0] * len(labels)}
    else:
        content[b"labels"] = labels.tolist()
    path.write_bytes(pickle.dumps(content, protocol=2))


def _write_binary(path: Path, images: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64], fine: bool) -> None:
    with path.open("wb") as file:
        for image, label in zip(images, labels, strict=True):
            file.write(bytes([19, label]) if fine else bytes([label]))
            file.write(image.tobytes())


def idx_bytes(array: npt.NDArray[np.uint8]) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def fake_mnist(folder: Path, *, packed: bool) -> dict[str, npt.NDArray[np.uint8]]:
    """Write four idx files of 30 and 10 rows, three classes."""
    draw = np.random.default_rng(3)
    arrays = {
        "train-images-idx3-ubyte": draw.integers(0, 256, (30, 5, 4), dtype=np.uint8),
        "train-labels-idx1-ubyte": (np.arange(30) % 3).astype(np.uint8),
        "t10k-images-idx3-ubyte": draw.integers(0, 256, (10, 5, 4), dtype=np.uint8),
        "t10k-labels-idx1-ubyte": (np.arange(10) % 3).astype(np.uint8),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        data = idx_bytes(array)
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(data))
        else:
            (folder / name).write_bytes(data)
    return arrays
