"""From a name or a path to rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from pars.data.arrays import array_rows, arrays, checked_dataset
from pars.data.cifar import cifar10, cifar100
from pars.data.clothing1m import clothing1m, is_clothing1m
from pars.data.config import IMAGE_OPTIONS, NAMES, DataConfig, data_root
from pars.data.dataset import TRUSTED, UNCHECKED, Dataset, Inputs, Labels, Split, check_split
from pars.data.digits import digits
from pars.data.disk_images import DiskImages
from pars.data.idx import fashion_mnist, idx_folder, is_idx_folder
from pars.data.image_files import disk_dataset, from_files, is_image_source, readable
from pars.data.pack import is_pack, open_pack
from pars.data.subsets import low_resource
from pars.data.table import has_columns, read_table
from pars.errors import UserError
from pars.files import expanded

Tokenize = Callable[[Sequence[str]], npt.NDArray[np.int32]]
"""Texts to token numbers [n, T], -1 where a text has ended."""


def load(config: DataConfig, *, seed: int = 0, tokenize: Callable[[Sequence[str]], Tokenize] | None = None) -> Dataset:
    """The data set of a configuration, with its limit and its low-resource choice applied.

    Published sets: given labels equal the true ones (noise is added elsewhere). A user's arrays: given labels are y,
    true ones y_true or None. `seed` decides which rows keep their label; `config.holdout` is for whoever trains.
    tokenize: for a table of texts: what makes token numbers of such texts, chosen by those of the training rows.

    >>> data = load(DataConfig(labeled=20, limit=500))
    >>> len(data.train), int((data.train.labels >= 0).sum())
    (500, 20)
    """
    dataset = _source(config) if config.text_column is None else _texts(config, tokenize)
    if config.limit is not None:
        if config.limit > len(dataset.train):
            raise UserError(
                f"data.limit: {config.limit}, expected at most {len(dataset.train)}, the rows of {config.name}"
            )
        dataset = replace(dataset, train=dataset.train.first(config.limit))
    if config.labeled is not None:
        dataset = low_resource(dataset, config.labeled, seed)
    check_split(dataset.train, dataset.n_classes, f"{config.name} (training)", training=True)
    return dataset


def load_rows(
    source: str,
    root: str | None = None,
    split: Literal["train", "test"] = "test",
    *,
    classes: tuple[str, ...] | None = None,
    labels: bool = True,
    side: int | None = None,
    download: bool = True,
) -> Split:
    """Rows to predict on, by name or path; labels are -1 where there are none.

    Of a user's file, "test" means x_test where there is one, else x. `classes`: those of the run that predicts, so that
    named labels get its numbers. Without `labels` those of a user's file are not looked at. `side`: of
    images on disk, that of the run.
    """
    if source not in NAMES and not is_idx_folder(expanded(source)):
        path = _existing(source)
        if not is_pack(path) and not is_clothing1m(path):
            return array_rows(path, split, classes, labels=labels)
        found = packed(path, side=side) if is_pack(path) else clothing1m(path, side=side)
        if classes is not None and classes != found.classes:
            raise UserError(f"{path} has the classes {', '.join(found.classes)}, expected {', '.join(classes)}")
        return found.train if split == "train" or found.test is None else found.test
    dataset = _source(DataConfig(name=source, root=root, download=download))
    rows = dataset.train if split == "train" else dataset.test
    assert rows is not None  # every published set has both
    return rows


def _source(config: DataConfig) -> Dataset:
    name, root, download = config.name, config.root, config.download
    if name not in NAMES:
        path = _existing(name)
        if is_pack(path):
            _refuse(config, IMAGE_OPTIONS[:3], f"{path} is a pack")
            return packed(path, side=config.side, skip_unreadable=config.skip_unreadable)
        if is_clothing1m(path):
            _refuse(config, IMAGE_OPTIONS[:3], f"{path} is Clothing1M, which has lists of its own")
            return clothing1m(path, side=config.side, skip_unreadable=config.skip_unreadable)
        if not is_idx_folder(path) and is_image_source(path, config.image_column):
            return from_files(
                path,
                None if config.test is None else _existing(config.test),
                image_column=config.image_column,
                label_column=config.label_column,
                side=config.side,
                skip_unreadable=config.skip_unreadable,
            )
    is_table = name not in NAMES and not path.is_dir() and has_columns(path)
    hint = "; expected --data.image-column or --data.text-column, too" if is_table else ""
    _refuse(config, IMAGE_OPTIONS, f"{name} has no image files{hint}")
    match name:
        case "digits":
            return digits()
        case "fashion-mnist":
            return fashion_mnist(data_root(root), download=download)
        case "cifar10":
            return cifar10(data_root(root), download=download)
        case "cifar100":
            return cifar100(data_root(root), download=download)
    return idx_folder(path, name=path.name) if is_idx_folder(path) else arrays(path)


def _texts(config: DataConfig, tokenize: Callable[[Sequence[str]], Tokenize] | None) -> Dataset:
    """A table of texts as token numbers."""
    _refuse(config, ("image_column", "side", "skip_unreadable"), f"{config.name} is a table of texts")
    if config.name in NAMES:
        raise UserError(f"data.text_column is {config.text_column!r}, but {config.name} has images, expected a table")
    path = _existing(config.name)
    if not has_columns(path):
        raise UserError(f"data.text_column is {config.text_column!r}, but {path} is no table")
    if config.label_column is None:
        raise UserError(f"{path} is a table of texts: --data.label-column names the column of labels")
    if tokenize is None:
        raise UserError(f"{path} is a table of texts, which a network has to read: expected --model.name hf:NAME")
    text, label = config.text_column, config.label_column
    table, test = read_table(path, text=text, label=label, unlabeled=""), None
    if config.test is not None:
        test = read_table(_existing(config.test), text=text, label=label, unlabeled="", classes=table.classes)
    tokens = tokenize(table.texts or [])
    train = Split(tokens(table.texts or []), table.labels, table.true_labels)
    rest = None if test is None else Split(tokens(test.texts or []), test.labels, test.labels)
    return checked_dataset(path, train, rest, table.classes)


def _refuse(config: DataConfig, options: Sequence[str], why: str) -> None:
    for option in options:
        if getattr(config, option):
            raise UserError(f"data.{option} is {getattr(config, option)!r}, but {why}")


def packed(path: Path, *, side: int | None = None, skip_unreadable: bool = False) -> Dataset:
    """The images of a pack, which stay on disk. Rows of its split "validation" are TRUSTED: held out."""
    pack = open_pack(path)
    rows = [np.flatnonzero(~pack.test), np.flatnonzero(pack.test)]
    if not len(rows[0]):
        raise UserError(f"{path}: no row of the split train, expected some")

    def split(part: npt.NDArray[np.int64], true_labels: Labels | None) -> Split:
        images = cast("Inputs", DiskImages(pack, part, side or pack.side))
        checked = np.where(pack.validation[part], TRUSTED, UNCHECKED).astype(np.int8) if pack.validation.any() else None
        found = Split(images, pack.labels[part], true_labels, checked=checked)
        return readable(found, str(path)) if skip_unreadable else found

    train, test = split(rows[0], None), split(rows[1], pack.labels[rows[1]]) if len(rows[1]) else None
    return disk_dataset(path.name, train, test, pack.classes, pack.statistics)


def _existing(name: str) -> Path:
    path = expanded(name)
    if not path.exists():
        raise UserError(
            f"data: {name!r} is neither a known data set nor a path that exists; expected one of {', '.join(NAMES)}, "
            "an .npz file, a folder of images class/name.jpg, or a folder of .npy or idx files"
        )
    return path
