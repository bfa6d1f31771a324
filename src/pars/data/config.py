"""Which data, from where: the `[data]` table of a configuration file and the `--data.*` flags."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pars.errors import UserError
from pars.files import expanded

NAMES = ("digits", "fashion-mnist", "cifar10", "cifar100")
IMAGE_OPTIONS = ("test", "image_column", "label_column", "side", "skip_unreadable")
"""Fields that only images on disk have a use for; tables of texts for the labels and the test rows, too."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which data, from where."""

    name: str = "digits"
    """digits, fashion-mnist, cifar10, cifar100, or a path: an .npz file, a folder of .npy or of idx files, a pack,
    a folder of images class/name.jpg, a table with a column of their paths, or of texts, the folder of Clothing1M."""
    root: str | None = None
    """Folder that holds published data sets; default: $PARS_DATA, else ~/.cache/pars."""
    test: str | None = None
    """Folder or table of images, table of texts: another one, with right labels, to test on."""
    image_column: str | None = None
    """Table of images: column of their paths, relative to the table."""
    label_column: str | None = None
    """Table of images or texts: column of their labels."""
    text_column: str | None = None
    """Table of texts, which the network reads (model.name hf:NAME): their column."""
    side: int | None = None
    """Images on disk: side in pixels of the square that they are resized to cover, and whose middle is taken; by
    default that of the pack, else 256."""
    skip_unreadable: bool = False
    """Images on disk: decode all of them once, and leave out and count those that cannot be read."""
    labeled: int | None = None
    """Keep this many training labels, class-balanced; the other rows become unlabeled."""
    limit: int | None = None
    """Keep the first so many training rows."""
    holdout: float = 0.0
    """Fraction of the labeled training rows set aside, with their given labels, to choose models by."""
    labels: str | None = None
    """labels.csv of a review: its labels replace the given ones, rows dropped there are not trained on."""
    judging: float = 0.0
    """Fraction of the held-out rows that choose nothing, neither epoch nor loss: for an unbiased comparison."""
    download: bool = True
    """Fetch a published data set that is not there."""

    def __post_init__(self) -> None:
        if not self.name:
            raise UserError(f"data.name: empty, expected {', '.join(NAMES)} or a path")
        for key, value in (("labeled", self.labeled), ("limit", self.limit), ("side", self.side)):
            if value is not None and value < 1:
                raise UserError(f"data.{key}: {value}, expected at least 1")
        if not 0 <= self.holdout < 1:
            raise UserError(f"data.holdout: {self.holdout}, expected a fraction from 0 up to, not including, 1")
        if not 0 <= self.judging < 1:
            raise UserError(f"data.judging: {self.judging}, expected a fraction from 0 up to, not including, 1")


def data_root(root: str | None = None) -> Path:
    """Where published data sets are: as given, else $PARS_DATA, else ~/.cache/pars."""
    return expanded(root or os.environ.get("PARS_DATA") or "~/.cache/pars")
