"""Class balance: oversampling against counts, the balanced vote against a loop over pairs and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.neighbors import KNeighborsClassifier

from methods.by_hand import random, random_classes
from pars.methods.parts import class_balance
from pars.methods.parts.class_balance import (
    balanced_vote,
    has_several_classes,
    oversample_classes,
    smallest_of_each_class,
)


@settings(max_examples=50, deadline=None)
@given(labels=st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_every_class_has_as_many_rows_as_the_largest_spread_evenly_over_its_own(labels: list[int]) -> None:
    rows = [100 + 3 * i for i in range(len(labels))]
    drawn = oversample_classes(torch.tensor(rows), torch.tensor(labels)).tolist()
    largest = max(labels.count(c) for c in labels)
    for c in set(labels):
        own = [row for row, y in zip(rows, labels, strict=True) if y == c]
        times = [drawn.count(row) for row in own]
        assert sum(times) == largest
        assert max(times) - min(times) <= 1
    assert len(drawn) == largest * len(set(labels))


def test_no_rows_are_no_rows() -> None:
    none = torch.tensor([], dtype=torch.int64)
    assert len(oversample_classes(none, none)) == 0


def test_several_classes_are_two_or_more() -> None:
    assert has_several_classes(torch.tensor([3, 3, 0]))
    assert not has_several_classes(torch.tensor([3, 3]))
    assert not has_several_classes(torch.tensor([], dtype=torch.int64))


def by_loops(features: torch.Tensor, labels: torch.Tensor, n_classes: int, k: int) -> list[list[float]]:
    points, classes = features.double().tolist(), labels.tolist()
    voters = [j for j, y in enumerate(classes) if y >= 0]
    out = []
    for i, a in enumerate(points):
        cosines = []
        for j in voters:
            b = points[j]
            norm = sum(x * x for x in a) ** 0.5 * sum(x * x for x in b) ** 0.5
            cosines.append((sum(x * y for x, y in zip(a, b, strict=True)) / norm, j))
        nearest = [j for _, j in sorted(cosines, reverse=True)[:k]]
        assert i not in voters or i in nearest
        shares = [
            sum(classes[j] == c for j in nearest) / k / (max(1e-10, classes.count(c)) / len(voters))
            for c in range(n_classes)
        ]
        out.append([share / sum(shares) for share in shares])
    return out


@pytest.mark.parametrize(("seed", "k"), [(0, 1), (1, 5), (2, 13)])
def test_votes_are_those_of_a_loop_over_pairs(seed: int, k: int) -> None:
    features, labels = random(seed, 40, 6), random_classes(seed, 40, 4)
    labels[labels == 2] = 0  # a class that nobody has, and one that many have
    labels[:5] = -1
    assert_allclose(balanced_vote(features, labels, n_classes=4, k=k), by_loops(features, labels, 4, k), rtol=1e-5)


def test_votes_are_those_of_scikit_learn_over_the_class_prior() -> None:
    features, labels = random(3, 200, 8), random_classes(3, 200, 5) * random_classes(4, 200, 2)
    counted = KNeighborsClassifier(n_neighbors=20, metric="cosine", algorithm="brute").fit(features, labels)
    shares = counted.predict_proba(features) / (np.bincount(labels) / 200)
    expected = shares / shares.sum(axis=1, keepdims=True)
    assert_allclose(balanced_vote(features, labels, n_classes=5, k=20), expected, rtol=1e-5)


def test_the_size_of_the_parts_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = random(5, 50, 3), random_classes(5, 50, 3)
    labels[::7] = -1
    whole = balanced_vote(features, labels, n_classes=3, k=4)
    monkeypatch.setattr(class_balance, "_SIMILARITIES", 300)  # seven rows at a time
    assert torch.equal(balanced_vote(features, labels, n_classes=3, k=4), whole)


def test_the_nearest_neighbor_of_a_row_is_itself_even_without_a_direction() -> None:
    features, labels = random(6, 12, 2), random_classes(6, 12, 3)
    features[4:] = 0
    assert torch.equal(balanced_vote(features, labels, n_classes=3, k=1).argmax(dim=1), labels)


def test_with_all_rows_voting_every_class_that_has_rows_has_the_same_share() -> None:
    labels = torch.tensor([0, 0, 0, 0, 0, 3, 3, 1])
    votes = balanced_vote(random(7, 8, 4), labels, n_classes=4, k=1000)
    assert torch.equal(votes, torch.tensor([1 / 3, 1 / 3, 0, 1 / 3]).expand(8, 4))


def test_equal_shares_of_classes_of_different_size_are_equal_to_the_bit() -> None:
    """3 of 9 and 5 of 15, and 1 of 3: no share of a prior is rounded in between."""
    close = torch.tensor([[1.0, 0.01 * i] for i in range(9)])
    far = torch.tensor([[-1.0, 0.01 * i] for i in range(18)])
    labels = torch.tensor([0] * 3 + [1] * 5 + [2] + [0] * 6 + [1] * 10 + [2] * 2)
    votes = balanced_vote(torch.cat([close, far]), labels, n_classes=3, k=9)
    assert (votes[:9] == votes[:9, :1]).all()


def test_where_nobody_has_a_label_nobody_has_votes() -> None:
    votes = balanced_vote(random(8, 3, 2), torch.tensor([-1, -1, -1]), n_classes=2, k=2)
    assert torch.equal(votes, torch.zeros(3, 2))


def test_the_smallest_values_of_each_class_are_taken_and_all_of_a_small_one() -> None:
    values, labels = random(3, 30).abs(), torch.tensor([0] * 3 + [2] * 20 + [3] * 7)
    found = set(smallest_of_each_class(values, labels, 5).nonzero()[:, 0].tolist())
    expected: set[int] = set()
    for k in (0, 2, 3):
        expected |= set(sorted((i for i in range(30) if labels[i] == k), key=lambda i: float(values[i]))[:5])
    assert found == expected
