"""Handwritten digits, 8×8, the real image set that comes with scikit-learn (Alpaydin & Kaynak 1998)."""

from __future__ import annotations

import numpy as np

from pars.data.dataset import Dataset, Split, channel_statistics
from pars.data.subsets import choose, proportional
from pars.seeds import generator

N_TEST = 450


def digits() -> Dataset:
    """All 1 797 digits: 1 347 to train on, 450 to test, always the same and class by class in proportion.

    >>> data = digits()
    >>> data.train.inputs.shape, len(data.test), data.n_classes
    ((1347, 1, 8, 8), 450, 10)
    """
    from sklearn.datasets import load_digits  # here: importing scikit-learn takes a second or two

    source = load_digits()
    images = np.round(source.images * (255 / 16)).astype(np.uint8)[:, None]  # published as 0..16
    labels = source.target.astype(np.int64)
    held = choose(labels, proportional(np.bincount(labels, minlength=10), N_TEST), generator(0, "digits-split"))
    train, test = (Split(images[rows], labels[rows], labels[rows].copy()) for rows in (~held, held))
    mean, std = channel_statistics(images[~held])
    return Dataset("digits", train, test, tuple(str(c) for c in range(10)), mean, std)
