"""From a name or a path to rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from pars.data.arrays import array_rows, arrays
from pars.data.cifar import cifar10, cifar100
from pars.data.config import NAMES, DataConfig, data_root
from pars.data.dataset import Dataset, Split, check_split
from pars.data.digits import digits
from pars.data.idx import fashion_mnist, idx_folder, is_idx_folder
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
        return array_rows(_existing(source), split, classes, labels=labels)
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
    return idx_folder(path, name=path.name) if is_idx_folder(path) else arrays(path)


def _existing(name: str) -> Path:
    path = expanded(name)
    if not path.exists():
        raise UserError(
            f"data: {name!r} is neither a known data set nor a path that exists; expected one of {', '.join(NAMES)}, "
            "an .npz file, or a folder of .npy or idx files"
        )
    return path
