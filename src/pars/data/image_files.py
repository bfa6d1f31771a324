"""Images that are files of their own: in a folder class/name.jpg, or named by a table; read when they are needed."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from pars.data.dataset import Dataset, Inputs, Labels, Split, channel_statistics
from pars.data.disk_images import DiskImages
from pars.data.images import UnreadableImage, listed
from pars.data.table import Table, has_columns, read_table
from pars.errors import UserError

log = logging.getLogger(__name__)

SIDE = 256  # pixels of the square that images are resized to
_GONE = -1  # size of a file that is not there


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Image files as rows. One array holds all paths: a list of a million texts would need ten times the memory."""

    source: str  # what the rows are of, for messages
    folder: Path
    names: npt.NDArray[np.bytes_]  # [n] paths relative to `folder`
    sizes: npt.NDArray[np.int64]  # [n] bytes of the files

    def __len__(self) -> int:
        return len(self.names)

    @property
    def data(self) -> None:
        """No file holds all images."""

    def path(self, row: int) -> Path:
        return self.folder / os.fsdecode(bytes(self.names[row]))

    def places(self, rows: npt.NDArray[np.int64]) -> tuple[str, ...]:
        """The paths of rows."""
        folder = str(self.folder)  # as text: a Path for each of a million rows would be slow
        return tuple(f"{folder}/{os.fsdecode(name)}" for name in self.names[rows].tolist())

    def where(self, row: int) -> str:
        """A row's place, for messages."""
        return f"{self.source}: row {row} ({self.path(row)})"

    def checksum(self) -> str:
        """Of names and sizes; contents would have to be read."""
        digest = hashlib.blake2b(np.ascontiguousarray(self.names).tobytes(), digest_size=16)
        digest.update(np.ascontiguousarray(self.sizes).data)
        return f'"{digest.hexdigest()}"'


def image_files(names: Sequence[bytes], folder: Path, source: str, *, may_miss: bool = False) -> ImageFiles:
    """The files of these names; a UserError names the first that is not there, unless they may be missing."""
    sizes = np.empty(len(names), dtype=np.int64)
    found = ImageFiles(source, folder, np.array(names, dtype=np.bytes_), sizes)
    for row in range(len(names)):
        try:
            sizes[row] = found.path(row).stat().st_size
        except OSError as error:
            if not may_miss:
                raise UserError(
                    f"{found.where(row)}: no such file ({error.strerror}); --data.skip-unreadable leaves such rows out"
                ) from None
            sizes[row] = _GONE
    return found


def files_of(table: Table, *, may_miss: bool = False) -> ImageFiles:
    """The images of a table."""
    if table.images is None:
        raise UserError(f"{table.source} has no images, expected a folder class/name.jpg or a column of paths")
    paths = [path.absolute() for path in table.images]
    folder = Path(os.path.commonpath([path.parent for path in paths]))
    names = [os.fsencode(path.relative_to(folder)) for path in paths]
    return image_files(names, folder, table.source, may_miss=may_miss)


def is_image_source(path: Path, image_column: str | None) -> bool:
    """Whether a path is a folder of images in folders of classes, or a table with a column of them."""
    if path.is_dir():
        return not any(path.glob("*.npy")) and any(inner.is_dir() for inner in path.iterdir())
    return image_column is not None and has_columns(path)


def from_files(
    train: Path,
    test: Path | None,
    *,
    image_column: str | None = None,
    label_column: str | None = None,
    side: int | None = None,
    skip_unreadable: bool = False,
) -> Dataset:
    """A data set of image files, which stay on disk; mean and deviation are of at most 1 000 of them.

    A table needs a column of paths, relative to it, and one of labels. `test`: further images with right labels.
    """

    def read(path: Path, classes: tuple[str, ...] | None) -> Table:
        if not has_columns(path):
            return read_table(path, classes=classes)
        if image_column is None or label_column is None:
            raise UserError(f"{path} is a table: --data.image-column and --data.label-column name its columns")
        return read_table(
            path, image=image_column, label=label_column, classes=classes, unlabeled="", check_files=False
        )

    table = read(train, None)
    rest = None if test is None else read(test, table.classes)
    splits = [None if each is None else split_of(each, side or SIDE, skip_unreadable) for each in (table, rest)]
    assert splits[0] is not None
    return disk_dataset(train.name, splits[0], splits[1], table.classes)


def split_of(table: Table, side: int, skip_unreadable: bool = False) -> Split:
    """The rows of a table of images, read from disk when they are needed."""
    files = files_of(table, may_miss=skip_unreadable)
    found = Split(cast("Inputs", DiskImages(files, np.arange(len(files)), side)), table.labels)
    return readable(found, table.source) if skip_unreadable else found


def readable(split: Split, source: str) -> Split:
    """The rows whose image can be read, after decoding all of them once; the others are counted in a warning."""
    images = cast("DiskImages", split.inputs)
    bad = images.unreadable()
    if not bad:
        return split
    if len(bad) == len(split):
        raise UnreadableImage(f"{source}: none of its {len(split)} images can be read; the first: {bad[0]}")
    log.warning("%s: %d of %d images cannot be read and are left out: %s", source, len(bad), len(split),
                listed(bad, lambda row: images.store.where(int(images.rows[row]))))  # fmt: skip
    kept = np.setdiff1d(np.arange(len(split)), list(bad))
    labels: Labels = split.labels[kept]
    return Split(
        cast("Inputs", DiskImages(images.store, images.rows[kept], images.side, images.workers)),
        labels,
        None if split.true_labels is None else split.true_labels[kept],
        checked=None if split.checked is None else split.checked[kept],
    )


def disk_dataset(
    name: str,
    train: Split,
    test: Split | None,
    classes: tuple[str, ...],
    statistics: tuple[tuple[float, ...], tuple[float, ...]] | None = None,
) -> Dataset:
    """A data set of images on disk, with its published mean and deviation, else those of at most 1 000 rows."""
    mean, std = statistics or channel_statistics(cast("DiskImages", train.inputs).sample())
    return Dataset(name, train, test, classes, mean, std)
