"""Clothing1M (Xiao et al. 2015) in the layout it is published in: key files beside the folder of its photographs.

category_names_eng.txt    14 lines, the classes in the order of their numbers
noisy_label_kv.txt        "images/0/00/….jpg 3": photographs and their noisy labels
clean_label_kv.txt        the same, with labels that people gave
noisy_train_key_list.txt, clean_val_key_list.txt, clean_test_key_list.txt: a photograph per line
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from pars.data.dataset import TRUSTED, UNCHECKED, Dataset, Inputs, Labels, Split
from pars.data.disk_images import DiskImages
from pars.data.image_files import SIDE, image_files, readable
from pars.data.pack import ImageToPack
from pars.errors import UserError

CLASSES = "category_names_eng.txt"
NOISY_LABELS, CLEAN_LABELS = "noisy_label_kv.txt", "clean_label_kv.txt"
TRAIN, VALIDATION, TEST = "noisy_train_key_list.txt", "clean_val_key_list.txt", "clean_test_key_list.txt"
# Of the photographs at 256 pixels per side, as in the public code of DivideMix and ELR.
MEAN, STD = (0.6959, 0.6537, 0.6371), (0.3113, 0.3192, 0.3214)


def is_clothing1m(path: Path) -> bool:
    return all((path / name).is_file() for name in (CLASSES, NOISY_LABELS, CLEAN_LABELS, TRAIN, TEST))


def clothing1m(root: Path, *, side: int | None = None, skip_unreadable: bool = False) -> Dataset:
    """The noisy training photographs, then the clean validation ones, and the clean test ones; all stay on disk.

    Validation rows are TRUSTED: held out, and what checkpoints are chosen by (`train.select`) if nothing else is held
    out.
    """
    classes, parts = read_lists(root)

    def split(names: Sequence[str]) -> Split:
        keys = [key for name in names for key in parts[name][0]]
        files = image_files([os.fsencode(key) for key in keys], root, str(root), may_miss=skip_unreadable)
        labels: Labels = np.concatenate([parts[name][1] for name in names])
        checked = np.repeat([TRUSTED if name == VALIDATION else UNCHECKED for name in names],
                            [len(parts[name][0]) for name in names]).astype(np.int8)  # fmt: skip
        is_test = TEST in names
        images = cast("Inputs", DiskImages(files, np.arange(len(files)), side or SIDE))
        found = Split(images, labels, labels if is_test else None, checked=None if is_test else checked)
        return readable(found, str(root)) if skip_unreadable else found

    return Dataset("clothing1m", split([TRAIN, VALIDATION]), split([TEST]), classes, MEAN, STD)


def images_to_pack(root: Path) -> tuple[list[ImageToPack], tuple[str, ...]]:
    """The photographs of all three lists, to be packed."""
    classes, parts = read_lists(root)
    found = []
    for name, split in ((TRAIN, "train"), (VALIDATION, "validation"), (TEST, "test")):
        keys, labels = parts[name]
        found += [ImageToPack(key, classes[label], root / key, split) for key, label in zip(keys, labels, strict=True)]
    return found, classes


def read_lists(root: Path) -> tuple[tuple[str, ...], dict[str, tuple[list[str], Labels]]]:
    """Class names, and of each list its photographs and their labels."""
    classes = tuple(line.strip() for line in _lines(root / CLASSES) if line.strip())
    noisy, clean = (_labels(root / name, len(classes)) for name in (NOISY_LABELS, CLEAN_LABELS))
    parts = {name: _labeled(root / name, noisy if name == TRAIN else clean) for name in (TRAIN, VALIDATION, TEST)}
    return classes, parts


def _labels(file: Path, n_classes: int) -> dict[str, int]:
    """Photographs and their class numbers."""
    found = {}
    for number, line in enumerate(_lines(file)):
        if not line.strip():
            continue
        key, _, label = line.strip().rpartition(" ")
        if not (key and label.isascii() and label.isdecimal() and int(label) < n_classes):
            raise UserError(
                f"{file}: line {number + 1} is {line!r}, expected a file and a class from 0 to {n_classes - 1}"
            )
        found[key] = int(label)
    return found


def _labeled(file: Path, labels: Mapping[str, int]) -> tuple[list[str], Labels]:
    keys = [line.strip() for line in _lines(file) if line.strip()]
    if not keys:
        raise UserError(f"{file} is empty, expected a photograph per line")
    numbers = np.empty(len(keys), dtype=np.int64)
    for number, key in enumerate(keys):
        if key not in labels:
            raise UserError(f"{file}: line {number + 1}: {key!r} has no label")
        if Path(key).is_absolute() or ".." in Path(key).parts:
            raise UserError(f"{file}: line {number + 1} is {key!r}, expected a path below {file.parent}")
        numbers[number] = labels[key]
    return keys, numbers


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}") from error
