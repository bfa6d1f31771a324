from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pars.data import Dataset, Labels, Split, digits, holdout, labeled_rows, low_resource
from pars.errors import UserError

LABELS = st.lists(st.integers(0, 4), min_size=5, max_size=120).map(lambda tail: np.array([0, 1, 2, 3, 4, *tail]))


@given(labels=LABELS, share=st.floats(0, 1), seed=st.integers(0, 2**32))
def test_choice_is_as_balanced_as_the_rows_allow(labels: Labels, share: float, seed: int) -> None:
    n = 5 + round(share * (len(labels) - 5))
    mask = labeled_rows(labels, n, 5, seed)
    assert mask.sum() == n
    chosen, available = np.bincount(labels[mask], minlength=5), np.bincount(labels, minlength=5)
    # A class with rows to spare may be at most one behind the class that gave most.
    assert (chosen[chosen < available] >= chosen.max() - 1).all()


def test_choice_depends_on_the_seed_alone() -> None:
    labels = np.arange(1000) % 10
    np.testing.assert_array_equal(labeled_rows(labels, 40, 10, seed=1), labeled_rows(labels, 40, 10, seed=1))
    assert (labeled_rows(labels, 40, 10, seed=1) != labeled_rows(labels, 40, 10, seed=2)).any()


def test_every_row_of_a_class_is_as_likely() -> None:
    labels = np.arange(40) % 2
    times = sum(labeled_rows(labels, 10, 2, seed).astype(int) for seed in range(800))
    assert np.abs(times / 800 - 0.25).max() < 0.08  # five standard deviations


def test_left_over_labels_do_not_always_go_to_the_same_class() -> None:
    labels = np.arange(300) % 3
    favored = {int(np.bincount(labels[labeled_rows(labels, 10, 3, seed)]).argmax()) for seed in range(30)}
    assert favored == {0, 1, 2}


@pytest.mark.parametrize(("n", "message"), [(101, "at most 100"), (9, "at least 10, one for each class")])
def test_too_many_or_too_few(n: int, message: str) -> None:
    with pytest.raises(UserError, match=rf"labeled: {n}, expected {message}"):
        labeled_rows(np.arange(100) % 10, n, 10, seed=0)


def test_other_rows_become_unlabeled_and_keep_their_true_label() -> None:
    data = digits()
    few = low_resource(data, 50, seed=3)
    kept = few.train.labels >= 0
    assert np.bincount(few.train.labels[kept]).tolist() == [5] * 10
    assert (few.train.labels[~kept] == -1).all()
    np.testing.assert_array_equal(few.train.labels[kept], data.train.labels[kept])
    np.testing.assert_array_equal(few.train.true_labels, data.train.labels)


def test_balance_is_that_of_true_labels_and_unlabeled_rows_stay_so() -> None:
    true = np.arange(100) % 2
    given_labels = np.zeros(100, np.int64)  # all given labels the same: no balance to be had from them
    given_labels[:40] = -1
    data = Dataset("d", Split(np.zeros((100, 1), np.float32), given_labels, true), None, ("a", "b"))
    few = low_resource(data, 20, seed=0)
    assert np.bincount(true[few.train.labels >= 0]).tolist() == [10, 10]
    assert (few.train.labels[:40] == -1).all()


@given(labels=LABELS, fraction=st.floats(0, 0.6), seed=st.integers(0, 2**32), unlabeled=st.integers(0, 20))
def test_holdout_is_stratified(labels: Labels, fraction: float, seed: int, unlabeled: int) -> None:
    labels = np.concatenate([labels, np.full(unlabeled, -1)])
    mask = holdout(labels, fraction, seed)
    assert not mask[labels == -1].any()
    whole = np.bincount(labels[labels >= 0], minlength=5)
    held = np.bincount(labels[mask], minlength=5)
    wanted = np.minimum(whole * fraction, whole - 1)
    assert np.abs(held - wanted).max() <= 1.5  # one for sharing whole rows, half for rounding the total
    assert (held < whole).all()


def test_holdout_of_a_tenth_is_exact_and_seeded() -> None:
    labels = np.repeat([0, 1, 2], [100, 200, 700])
    assert np.bincount(labels[holdout(labels, 0.1, seed=0)]).tolist() == [10, 20, 70]
    assert (holdout(labels, 0.1, seed=0) != holdout(labels, 0.1, seed=1)).any()
    assert not holdout(labels, 0.0, seed=0).any()


@pytest.mark.parametrize("fraction", [-0.1, 1.0, float("nan")])
def test_holdout_fraction_has_to_leave_something(fraction: float) -> None:
    with pytest.raises(UserError, match=r"holdout: .*expected a fraction"):
        holdout(np.array([0, 1]), fraction, seed=0)
