from __future__ import annotations

import hashlib

import numpy as np
from sklearn.datasets import load_digits

from pars.data import digits


def test_split_is_a_partition_of_all_digits() -> None:
    data, source = digits(), load_digits()
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (1347, 450)
    both = np.concatenate([data.train.inputs, data.test.inputs]).reshape(1797, 64)
    expected = np.array([[int(v * 255 / 16 + 0.5) for v in row] for row in source.data], dtype=np.uint8)  # no ties
    order, expected_order = np.lexsort(both.T), np.lexsort(expected.T)
    np.testing.assert_array_equal(both[order], expected[expected_order])
    labels = np.concatenate([data.train.labels, data.test.labels])
    np.testing.assert_array_equal(labels[order], source.target[expected_order])


def test_each_class_gives_a_quarter_to_the_test_split() -> None:
    data = digits()
    assert data.test is not None
    whole = np.bincount(load_digits().target)
    held = np.bincount(data.test.labels)
    assert np.abs(held - whole * 450 / 1797).max() < 1


def test_split_is_always_the_same() -> None:
    a, b = digits(), digits()
    np.testing.assert_array_equal(a.train.inputs, b.train.inputs)
    # Guards published results on digits: another split would make them incomparable.
    assert hashlib.sha256(a.train.labels.astype("<i8").tobytes()).hexdigest()[:16] == "c954e8a9203cfb82"


def test_statistics_are_those_of_the_training_rows() -> None:
    data = digits()
    pixels = data.train.inputs / 255
    np.testing.assert_allclose(data.mean, [pixels.mean()], rtol=1e-12)
    np.testing.assert_allclose(data.std, [pixels.std()], rtol=1e-12)
    assert data.train.inputs.max() == 255
