from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pars.data import Dataset, Split, channel_statistics, check_split
from pars.errors import UserError


def features(n: int = 6) -> Split:
    return Split(np.ones((n, 4), np.float32), np.arange(n) % 3, np.arange(n) % 3)


def nan_at(row: int, column: int, value: float) -> Split:
    split = features()
    split.inputs[row, column] = value
    return split


def test_good_splits_pass() -> None:
    check_split(features(), 3, "x", training=True)
    check_split(Split(np.zeros((2, 1, 3, 3), np.uint8), np.array([-1, 0])), 2, "x")
    check_split(features(), 4, "x")  # a test split need not have every class


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Split(features().inputs, np.array([0, 1, 2, 3, 1, 7])),
            r"labels: row 3 is 3, expected 0\.\.2 .*2 such",
        ),
        (lambda: Split(features().inputs, np.array([0, 1, 2, -2, 1, 0])), r"row 3 is -2"),
        (lambda: Split(features().inputs, features().labels, np.full(6, 9)), r"true labels: row 0 is 9"),
        (lambda: Split(features().inputs, np.arange(5) % 3), r"labels: shape \[5\], expected .*\[6\]"),
        (lambda: Split(features().inputs, features().labels, np.zeros(7, np.int64)), r"true labels: shape \[7\]"),
        (lambda: Split(features().inputs, features().labels.astype(np.int32)), r"dtype int32, expected int64"),
        (lambda: nan_at(4, 2, np.nan), r"row 4, column 2 is nan, expected a finite number"),
        (lambda: nan_at(1, 3, -np.inf), r"row 1, column 3 is -inf"),
        (lambda: Split(np.zeros((0, 4), np.float32), np.zeros(0, np.int64)), r"no rows, expected at least one"),
        (lambda: Split(np.zeros((2, 0), np.float32), np.zeros(2, np.int64)), r"rows without a single value"),
        (lambda: Split(np.zeros((6, 4)), features().labels), r"dtype float64, expected float32"),  # type: ignore[arg-type]
        (lambda: Split(np.zeros((6, 1, 2, 2), np.float32), features().labels), r"dtype float32, expected uint8"),
        (lambda: Split(np.zeros((6, 2, 2), np.uint8), features().labels), r"shape \[6, 2, 2\], expected images"),
        (lambda: Split(features().inputs, np.array([0, 0, 2, 2, -1, -1])), r"class 1 has no labeled rows \(1 of 3"),
    ],
)
def test_the_first_bad_thing_is_named(make: Callable[[], Split], message: str) -> None:
    with pytest.raises(UserError, match=rf"^here\.npz: .*{message}"):
        check_split(make(), 3, "here.npz", training=True)


def test_nan_beyond_the_first_part_is_found_by_its_row() -> None:
    wide = np.zeros((9, 2**22), np.float32)  # four rows to a part
    wide[7, 5] = np.nan
    with pytest.raises(UserError, match=r"row 7, column 5"):
        check_split(Split(wide, np.zeros(9, np.int64)), 2, "x")


def test_one_class_is_not_a_problem_to_learn() -> None:
    with pytest.raises(UserError, match=r"1 class\(es\), expected at least 2"):
        check_split(Split(np.zeros((2, 2), np.float32), np.zeros(2, np.int64)), 1, "x")


def test_channel_statistics_match_numpy_over_several_parts() -> None:
    images = np.random.default_rng(0).integers(0, 256, (9000, 3, 2, 3), dtype=np.uint8)
    images[:, 1] //= 3
    mean, std = channel_statistics(images)
    np.testing.assert_allclose(mean, (images / 255).mean(axis=(0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(std, (images / 255).std(axis=(0, 2, 3)), rtol=1e-12)


def test_with_labels_changes_training_labels_only() -> None:
    data = Dataset("d", features(), features(), ("a", "b", "c"))
    other = data.with_labels(np.full(6, 2), None)
    assert other.train.labels.tolist() == [2] * 6
    assert other.train.true_labels is None
    assert other.train.inputs is data.train.inputs
    assert other.test is data.test
    assert data.train.labels.tolist() == [0, 1, 2, 0, 1, 2]
