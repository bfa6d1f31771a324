"""What a data set is to the rest of the library: rows with a number, a given label, and perhaps a true one apart."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]
Inputs = npt.NDArray[np.uint8] | npt.NDArray[np.float32]

UNLABELED = -1


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of one kind. A row's identity is its number.

    inputs: uint8 images [n, C, H, W], or float32 feature vectors [n, d]; perhaps a read-only memory map.
    labels: given labels [n], `-1` = unlabeled.
    true_labels: the right labels where known; only noise generation and metrics may read them.
    cached: feature vectors only: views of each row made before it was encoded, [n, 2N, d]: N weak, then N strong ones.
    """

    inputs: Inputs
    labels: Labels
    true_labels: Labels | None = None
    cached: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_image(self) -> bool:
        return self.inputs.ndim == 4

    def first(self, n: int) -> Split:
        """The first n rows; they keep their numbers."""
        true = None if self.true_labels is None else self.true_labels[:n]
        return Split(self.inputs[:n], self.labels[:n], true, None if self.cached is None else self.cached[:n])


@dataclass(frozen=True, eq=False)
class Dataset:
    """A training split, a test split where there is one, and the names of the classes."""

    name: str
    train: Split
    test: Split | None
    classes: tuple[str, ...]
    mean: tuple[float, ...] = field(default=())  # per channel, in units of 0..1; images only
    std: tuple[float, ...] = field(default=())

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def with_labels(self, labels: Labels, true_labels: Labels | None) -> Dataset:
        """The same rows with other given labels (corrupted ones, human ones, some withheld)."""
        return replace(self, train=replace(self.train, labels=labels, true_labels=true_labels))


def channel_statistics(images: npt.NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel in units of 0..1, exact: from counts of the 256 values.

    >>> channel_statistics(np.array([[[[0, 255]]]], dtype=np.uint8))
    ((0.5,), (0.5,))
    """
    counts = np.zeros((images.shape[1], 256), dtype=np.int64)
    for start in range(0, len(images), 4096):  # in parts: a memory map may be larger than memory
        for channel, of_channel in enumerate(counts):
            of_channel += np.bincount(images[start : start + 4096, channel].ravel(), minlength=256)
    values = np.arange(256) / 255
    weights = counts / counts.sum(axis=1, keepdims=True)
    mean = weights @ values
    std = np.sqrt((weights * (values - mean[:, None]) ** 2).sum(axis=1))
    std[std == 0] = 1.0  # a constant channel says nothing; it becomes 0
    return tuple(mean.tolist()), tuple(std.tolist())
