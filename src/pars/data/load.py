"""From a name or a path to rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import numpy as np

from pars.data.arrays import array_rows, arrays
from pars.data.cifar import cifar10, cifar100
from pars.data.config import NAMES, DataConfig, data_root
from pars.data.dataset import Dataset, Inputs, Split, channel_statistics, check_split
from pars.data.digits import digits
from pars.data.disk_images import DiskImages
from pars.data.idx import fashion_mnist, idx_folder, is_idx_folder
from pars.data.pack import is_pack, open_pack
from pars.data.subsets import low_resource
from pars.errors import UserError
from pars.files import expanded


def load(config: DataConfig, *, seed: int = 0) -> Dataset:
    """The data set of a configuration, with its limit and its low-resource choice applied.

    Published sets: given labels equal the true ones (noise is added elsewhere). A user's arrays: given labels are y,
    true ones y_true or None. `seed` decides which rows keep their label; `config.holdout` is for whoever trains.

    >>> data = load(DataConfig(labeled=20, limit=500))
    >>> len(data.train), int((data.train.labels >= 0).sum())
    (500, 20)
    """
    dataset = _source(config.name, config.root, download=config.download)
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
    download: bool = True,
) -> Split:
    """Rows to predict on, by name or path; labels are -1 where there are none.

    Of a user's file, "test" means x_test where there is one, else x. `classes`: those of the run that predicts, so that
    named labels get its numbers. Without `labels` those of a user's file are not looked at.
    """
    if source not in NAMES and not is_idx_folder(expanded(source)):
        path = _existing(source)
        if not is_pack(path):
            return array_rows(path, split, classes, labels=labels)
        found = packed(path)
        if classes is not None and classes != found.classes:
            raise UserError(f"{path} has the classes {', '.join(found.classes)}, expected {', '.join(classes)}")
        return found.train if split == "train" or found.test is None else found.test
    dataset = _source(source, root, download=download)
    rows = dataset.train if split == "train" else dataset.test
    assert rows is not None  # every published set has both
    return rows


def _source(name: str, root: str | None, *, download: bool) -> Dataset:
    match name:
        case "digits":
            return digits()
        case "fashion-mnist":
            return fashion_mnist(data_root(root), download=download)
        case "cifar10":
            return cifar10(data_root(root), download=download)
        case "cifar100":
            return cifar100(data_root(root), download=download)
    path = _existing(name)
    if is_pack(path):
        return packed(path)
    return idx_folder(path, name=path.name) if is_idx_folder(path) else arrays(path)


def packed(path: Path) -> Dataset:
    """The pictures of a pack, which stay on disk, at its side; mean and deviation are of at most 1 000 of them."""
    pack = open_pack(path)
    rows = [np.flatnonzero(~pack.test), np.flatnonzero(pack.test)]
    if not len(rows[0]):
        raise UserError(f"{path}: no row of the split train, expected some")
    train, test = (DiskImages(pack, part, pack.side) for part in rows)
    mean, std = channel_statistics(train.sample())
    return Dataset(
        path.name,
        Split(cast("Inputs", train), pack.labels[rows[0]]),
        Split(cast("Inputs", test), pack.labels[rows[1]], pack.labels[rows[1]]) if len(test) else None,
        pack.classes,
        mean,
        std,
    )


def _existing(name: str) -> Path:
    path = expanded(name)
    if not path.exists():
        raise UserError(
            f"data: {name!r} is neither a known data set nor a path that exists; expected one of {', '.join(NAMES)}, "
            "an .npz file, or a folder of .npy or idx files"
        )
    return path
