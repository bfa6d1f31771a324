"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009) in the two layouts their publisher offers, "python" and "binary"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pars.data.dataset import Dataset, Labels, Split, check_labels
from pars.data.download import download as fetch
from pars.data.download import extract, read_checked
from pars.data.restricted_pickle import read_pickled_dict
from pars.errors import UserError

URL = "https://www.cs.toronto.edu/~kriz/"
PIXELS = 3 * 32 * 32

Rows = tuple[npt.NDArray[np.uint8], Labels]  # [n, 3072], [n]


@dataclass(frozen=True)
class File:
    """A published file: how many rows are in it, and by what to know it. An MD5 of None: none is published."""

    name: str
    rows: int
    md5: str | None


@dataclass(frozen=True)
class Layout:
    """One way in which the publisher packs a data set."""

    folder: str
    archive: str
    archive_md5: str
    train: tuple[File, ...]
    test: tuple[File, ...]
    names: File  # the class names
    label: str  # python: the key of the labels
    label_bytes: int = 0  # binary: bytes of labels before each image, the last of them is ours; 0 = python

    @property
    def files(self) -> tuple[File, ...]:
        return (*self.train, *self.test, self.names)


@dataclass(frozen=True)
class Cifar:
    """A data set, its layouts in the order in which they are looked for, and the LNL papers' normalization."""

    name: str
    n_classes: int
    layouts: tuple[Layout, ...]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


def _batches(suffix: str, md5s: Mapping[int, str]) -> tuple[File, ...]:
    return tuple(File(f"data_batch_{i}{suffix}", 10_000, md5) for i, md5 in md5s.items())


CIFAR10 = Cifar(
    name="cifar10",
    n_classes=10,
    layouts=(
        Layout(
            folder="cifar-10-batches-py",
            archive="cifar-10-python.tar.gz",
            archive_md5="c58f30108f718f92721af3b95e74349a",
            train=_batches(
                "",
                {
                    1: "c99cafc152244af753f735de768cd75f",
                    2: "d4bba439e000b95fd0a9bffe97cbabec",
                    3: "54ebc095f3ab1f0389bbae665268c751",
                    4: "634d18415352ddfa80567beed471001a",
                    5: "482c414d41f54cd18b22e5b47cb7c3cb",
                },
            ),
            test=(File("test_batch", 10_000, "40351d587109b95175f43aff81a1287e"),),
            names=File("batches.meta", 0, "5ff9c542aee3614f3951f8cda6e48888"),
            label="labels",
        ),
        Layout(
            folder="cifar-10-batches-bin",
            archive="cifar-10-binary.tar.gz",
            archive_md5="c32a1d4ab5d03f1284b67883e8d87530",
            train=_batches(
                ".bin",
                {
                    1: "5dd7e06a14cb22eb9f671a540d1b7c25",
                    2: "5ea93a67294ea407fff1d09f752e9692",
                    3: "942cd6a4bcdd0dd3c604fbe906cb4421",
                    4: "ae636b3ba5c66a11e91e8cb52e771fcb",
                    5: "53f37980c15c3d472c316c40844f3f0d",
                },
            ),
            test=(File("test_batch.bin", 10_000, "803d5f7f4d78ea53de84dbe85f74fb6d"),),
            names=File("batches.meta.txt", 0, None),
            label="labels",
            label_bytes=1,
        ),
    ),
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
)

CIFAR100 = Cifar(
    name="cifar100",
    n_classes=100,
    layouts=(
        Layout(
            folder="cifar-100-python",
            archive="cifar-100-python.tar.gz",
            archive_md5="eb9058c3a382ffc7106e4002c42a8d85",
            train=(File("train", 50_000, "16019d7e3df5f24257cddd939b257f8d"),),
            test=(File("test", 10_000, "f0ef6b0ae62326f3e7ffdfab6717acfc"),),
            names=File("meta", 0, "7973b15100ade9c7d40fb424638fde48"),
            label="fine_labels",
        ),
        Layout(
            folder="cifar-100-binary",
            archive="cifar-100-binary.tar.gz",
            archive_md5="03b5dce01913d631647c71ecec9e9cb8",
            train=(File("train.bin", 50_000, "6172c7755cfe09b2fe270c85cebc1b15"),),
            test=(File("test.bin", 10_000, "4499cfba6c016c1be1438163640a0898"),),
            names=File("fine_label_names.txt", 0, None),
            label="fine_labels",
            label_bytes=2,  # coarse, then fine
        ),
    ),
    mean=(0.507, 0.487, 0.441),
    std=(0.267, 0.256, 0.276),
)


def cifar10(root: Path, *, download: bool = True) -> Dataset:
    """CIFAR-10 from `root`; fetched there when absent, where `download` allows it."""
    return read_cifar(CIFAR10, root, download=download)


def cifar100(root: Path, *, download: bool = True) -> Dataset:
    """CIFAR-100 with its 100 fine classes, likewise."""
    return read_cifar(CIFAR100, root, download=download)


def read_cifar(cifar: Cifar, root: Path, *, download: bool, url: str = URL) -> Dataset:
    """Read whichever layout is in `root`: as a folder, as an archive placed there by hand, or freshly fetched."""
    layout = _ensure(cifar, root, download=download, url=url)
    read = _read_binary if layout.label_bytes else _read_python
    train = _split(cifar, layout, layout.train, root, read)
    test = _split(cifar, layout, layout.test, root, read)
    return Dataset(cifar.name, train, test, _class_names(cifar, layout, root), cifar.mean, cifar.std)


def _ensure(cifar: Cifar, root: Path, *, download: bool, url: str) -> Layout:
    """The layout to read. One that is complete comes first; an extraction that was interrupted is completed."""
    missing = {
        layout: [file for file in layout.files if not (root / layout.folder / file.name).is_file()]
        for layout in cifar.layouts
    }
    for layout in cifar.layouts:
        if not missing[layout]:
            return layout
    begun = next((layout for layout in cifar.layouts if len(missing[layout]) < len(layout.files)), None)
    by_hand = next((layout for layout in cifar.layouts if (root / layout.archive).is_file()), None)
    if by_hand is None and not download:
        if begun is not None:
            return begun  # reading it names what is missing
        wanted = " or ".join(f"{root / layout.folder}" for layout in cifar.layouts)
        raise UserError(
            f"{cifar.name}: not found, expected {wanted}; "
            f"allow the download, or place {cifar.layouts[0].archive} in {root}"
        )
    layout = by_hand or begun or cifar.layouts[0]
    archive = root / layout.archive
    if by_hand is None:
        fetch(url + layout.archive, archive, md5=layout.archive_md5)
    read_checked(archive, md5=layout.archive_md5, size=None, where=cifar.name)
    extract(archive, {f"{layout.folder}/{file.name}": root / layout.folder / file.name for file in missing[layout]})
    if by_hand is None:
        archive.unlink()  # ours, and unpacked; one placed by hand is the user's
    return layout


def _split(
    cifar: Cifar,
    layout: Layout,
    files: tuple[File, ...],
    root: Path,
    read: Callable[[Cifar, Layout, File, bytes, str], Rows],
) -> Split:
    images, labels = [], []
    for file in files:
        path = root / layout.folder / file.name
        size = file.rows * (PIXELS + layout.label_bytes) if layout.label_bytes else None
        data = read_checked(path, md5=file.md5, size=size, where=cifar.name)
        pixels, of_file = read(cifar, layout, file, data, f"{cifar.name}: {file.name} ({path})")
        check_labels(of_file, file.rows, cifar.n_classes, f"{cifar.name}: {file.name} ({path})")
        images.append(pixels)
        labels.append(of_file)
    given = np.concatenate(labels)
    return Split(np.concatenate(images).reshape(-1, 3, 32, 32), given, given.copy())


def _read_python(cifar: Cifar, layout: Layout, file: File, data: bytes, where: str) -> Rows:
    content = read_pickled_dict(data, where)
    pixels, labels = content.get("data"), content.get(layout.label)
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape != (file.rows, PIXELS):
        raise UserError(f"{where}: no uint8 images of shape [{file.rows}, {PIXELS}] under the key 'data'")
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < cifar.n_classes for label in labels):
        raise UserError(f"{where}: no list of class numbers 0..{cifar.n_classes - 1} under the key {layout.label!r}")
    return pixels, np.asarray(labels, dtype=np.int64)


def _read_binary(cifar: Cifar, layout: Layout, file: File, data: bytes, where: str) -> Rows:
    rows = np.frombuffer(data, dtype=np.uint8).reshape(file.rows, layout.label_bytes + PIXELS)
    return rows[:, layout.label_bytes :], rows[:, layout.label_bytes - 1].astype(np.int64)


def _class_names(cifar: Cifar, layout: Layout, root: Path) -> tuple[str, ...]:
    path = root / layout.folder / layout.names.name
    data = read_checked(path, md5=layout.names.md5, size=None, where=cifar.name)
    where = f"{cifar.name}: {layout.names.name} ({path})"
    if layout.label_bytes:
        names = data.decode("latin1").split()
    else:
        listed = read_pickled_dict(data, where).get(layout.label.replace("labels", "label_names"))
        names = (
            [n.decode("latin1") if isinstance(n, bytes) else str(n) for n in listed] if isinstance(listed, list) else []
        )
    if len(names) != cifar.n_classes:
        raise UserError(f"{where}: {len(names)} class names, expected {cifar.n_classes}")
    return tuple(names)
