"""Corrupted labels follow their distribution, exactly where a count is fixed; instance noise depends on the input."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from pars.errors import UserError
from pars.noise import (
    CIFAR100_SUPERCLASS,
    NoiseConfig,
    NoisyLabels,
    apply,
    class_map,
    corrupt_by_features,
    corrupt_by_map,
    corrupt_by_matrix,
    corrupt_uniform,
    transition_matrix,
)
from pars.noise.config import AsymmetricMap, Convention, Kind
from pars.noise.corrupt import draw_flip_rates

Ints = npt.NDArray[np.int64]

deterministic = settings(derandomize=True, deadline=None, max_examples=40)


def balanced(n: int, n_classes: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(n) % n_classes


@pytest.mark.parametrize(
    ("kind", "n_classes", "rate", "convention", "asymmetric_map"),
    [
        ("symmetric", 10, 0.2, "inclusive", "auto"),
        ("symmetric", 10, 0.9, "inclusive", "auto"),
        ("symmetric", 10, 0.5, "exclusive", "auto"),
        ("symmetric", 100, 0.9, "inclusive", "auto"),
        ("symmetric", 3, 1.0, "exclusive", "auto"),
        ("asymmetric", 10, 0.4, "inclusive", "auto"),
        ("asymmetric", 100, 0.4, "inclusive", "auto"),
        ("asymmetric", 100, 0.3, "inclusive", "superclass"),
        ("asymmetric", 15, 0.3, "inclusive", "block"),
        ("pair", 10, 0.45, "inclusive", "auto"),
    ],
)
def test_the_realized_confusion_is_the_transition_matrix_within_sampling_error(
    kind: Kind, n_classes: int, rate: float, convention: Convention, asymmetric_map: AsymmetricMap
) -> None:
    config = NoiseConfig(kind=kind, rate=rate, convention=convention, asymmetric_map=asymmetric_map)
    noisy = apply(config, balanced(50_000, n_classes), n_classes, seed=3)
    expected = transition_matrix(kind, n_classes, rate, convention=convention, asymmetric_map=asymmetric_map)
    counts, per_class = np.array(noisy.record.confusion), 50_000 // n_classes
    assert (counts[expected == 0] == 0).all()
    tails = np.minimum(binom.cdf(counts, per_class, expected), binom.sf(counts - 1, per_class, expected))
    assert tails.min() > 1e-7  # up to 10 000 entries, so about 1e-4 is to be expected
    z = (counts - per_class * expected) / np.sqrt(np.maximum(per_class * expected * (1 - expected), 1e-9))
    assert (z[(expected > 0) & (expected < 1)] ** 2).mean() < 1.8


@pytest.mark.parametrize(
    ("n_classes", "rate", "convention", "really_wrong"),
    [(10, 0.9, "inclusive", 0.81), (10, 0.9, "exclusive", 0.9), (100, 0.9, "inclusive", 0.891)],
)
def test_the_two_symmetric_conventions_differ_in_what_is_really_wrong(
    n_classes: int, rate: float, convention: Convention, really_wrong: float
) -> None:
    config = NoiseConfig(kind="symmetric", rate=rate, convention=convention)
    noisy = apply(config, balanced(50_000, n_classes), n_classes, seed=0)
    assert noisy.record.realized_rate is not None
    assert abs(noisy.record.realized_rate - really_wrong) < 4 * np.sqrt(0.1 * 0.9 / 50_000)


def test_corrupted_cifar100_labels_reach_every_class() -> None:
    noisy = apply(NoiseConfig(kind="symmetric", rate=0.9), np.zeros(20_000, np.int64), 100, seed=0)
    assert len(np.unique(noisy.labels)) == 100


class Marker(np.random.Generator):
    """A generator whose uniform draws are all one foreign number, so that replaced rows can be counted."""

    def integers(self, *args: object, size: int = 0, **more: object) -> object:  # type: ignore[override]
        return np.full(size, 999)


@given(n=st.integers(0, 300), unlabeled=st.integers(0, 50), rate=st.floats(0, 1))
@deterministic
def test_inclusive_noise_redraws_exactly_int_rn_of_the_labeled_rows(n: int, unlabeled: int, rate: float) -> None:
    labels = np.concatenate([balanced(n, 7), np.full(unlabeled, -1)])
    given_labels = corrupt_uniform(labels, 7, rate, Marker(np.random.PCG64(0)))
    assert (given_labels == 999).sum() == int(rate * n)
    assert (given_labels[n:] == -1).all()


@given(n=st.integers(0, 300), unlabeled=st.integers(0, 50), rate=st.floats(0, 1))
@deterministic
def test_map_noise_moves_exactly_int_rn_of_the_labeled_rows(n: int, unlabeled: int, rate: float) -> None:
    labels = np.concatenate([np.full(unlabeled, -1), balanced(n, 7)])
    everybody_moves = (np.arange(7) + 1) % 7
    given_labels = corrupt_by_map(labels, everybody_moves, rate, np.random.default_rng(0))
    assert (given_labels != labels).sum() == int(rate * n)
    assert (given_labels[:unlabeled] == -1).all()


def test_the_chosen_rows_are_not_the_first_ones() -> None:
    given_labels = corrupt_by_map(np.zeros(1000, np.int64), np.array([1, 0]), 0.5, np.random.default_rng(0))
    assert 200 < given_labels[:500].sum() < 300


def test_the_cifar10_map_touches_five_classes_and_no_other() -> None:
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    moved = {names[i]: names[j] for i, j in enumerate(class_map("cifar10", 10)) if i != j}
    assert moved == {"truck": "automobile", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"}
    noisy = apply(NoiseConfig(kind="asymmetric", rate=0.4), balanced(50_000, 10), 10, seed=0)
    wrong = np.array(noisy.record.confusion) * (1 - np.eye(10, dtype=int))
    assert np.flatnonzero(wrong.sum(axis=1)).tolist() == [2, 3, 4, 5, 9]
    assert noisy.record.realized_rate is not None
    assert abs(noisy.record.realized_rate - 0.2) < 0.01


def test_blocks_and_superclasses_are_groups_of_five_and_differ() -> None:
    block, superclass = class_map("block", 100), class_map("superclass", 100)
    for mapped in (block, superclass):
        assert sorted(mapped) == list(range(100))
        walk = np.arange(100)
        for steps in range(1, 6):
            walk = mapped[walk]
            assert (walk == np.arange(100)).all() == (steps == 5)  # cycles of five
    assert (block // 5 == np.arange(100) // 5).all()
    groups = np.array(CIFAR100_SUPERCLASS)
    assert (groups[superclass] == groups).all()
    assert (block == superclass).mean() < 0.1


def test_the_superclass_table_holds_what_people_know_of_cifar100() -> None:
    groups = np.array(CIFAR100_SUPERCLASS)
    known = {
        4: [0, 51, 53, 57, 83],  # apple, mushroom, orange, pear, sweet pepper
        14: [2, 11, 35, 46, 98],  # baby, boy, girl, man, woman
        17: [47, 52, 56, 59, 96],  # maple, oak, palm, pine, willow
        2: [54, 62, 70, 82, 92],  # orchid, poppy, rose, sunflower, tulip
        9: [12, 17, 37, 68, 76],  # bridge, castle, house, road, skyscraper
    }
    for group, members in known.items():
        assert np.flatnonzero(groups == group).tolist() == members
    assert (np.bincount(groups) == 5).all()
    assert len(np.bincount(groups)) == 20


@given(seed=st.integers(0, 1000), n_classes=st.integers(2, 6))
@deterministic
def test_a_class_of_probability_zero_is_never_drawn(seed: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    possible = (rng.random((n_classes, n_classes)) < 0.5) | np.eye(n_classes, dtype=bool)
    transition = rng.random((n_classes, n_classes)) * possible
    transition /= transition.sum(axis=1, keepdims=True)
    labels = rng.integers(-1, n_classes, 500)
    given_labels = corrupt_by_matrix(labels, transition, rng)
    labeled = labels >= 0
    assert (transition[labels[labeled], given_labels[labeled]] > 0).all()
    assert (given_labels[~labeled] == -1).all()


class Constant(np.random.Generator):
    """A generator whose uniform numbers are all the same."""

    value = 0.0

    def random(self, size: int) -> object:  # type: ignore[override]
        return np.full(size, self.value)


class Largest(Constant):
    value = float(np.nextafter(1.0, 0.0))


def test_the_extreme_uniform_numbers_still_draw_a_possible_class() -> None:
    row = [0.0] + [0.1] * 10 + [0.0]  # sums to 0.9999999999999999 in floating point
    labels, transition = np.zeros(3, np.int64), np.array([row] * 12)
    assert corrupt_by_matrix(labels, transition, Constant(np.random.PCG64(0))).tolist() == [1, 1, 1]
    assert corrupt_by_matrix(labels, transition, Largest(np.random.PCG64(0))).tolist() == [10, 10, 10]


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "pair", "instance"])
def test_noise_repeats_with_its_seed_and_changes_with_it(kind: Kind) -> None:
    true_labels = balanced(500, 10)
    inputs = np.random.default_rng(0).random((500, 3))
    before = true_labels.copy()

    def draw(seed: int, own: int | None = None) -> NoisyLabels:
        return apply(NoiseConfig(kind=kind, rate=0.4, seed=own), true_labels, 10, seed=seed, inputs=inputs)

    assert draw(1).record == draw(1).record
    assert (draw(1).labels == draw(1).labels).all()
    assert draw(1).record.sha256 != draw(2).record.sha256
    assert draw(1, own=7).record == draw(2, own=7).record == draw(7).record
    assert (true_labels == before).all()


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "pair", "instance"])
@pytest.mark.parametrize("convention", ["inclusive", "exclusive"])
def test_unlabeled_rows_stay_so_and_do_not_count(kind: Kind, convention: Convention) -> None:
    true_labels = balanced(4000, 10)
    true_labels[::4] = -1
    config = NoiseConfig(kind=kind, rate=0.5, convention=convention)
    noisy = apply(config, true_labels, 10, seed=0, inputs=np.random.default_rng(0).random((4000, 3)))
    assert ((noisy.labels == -1) == (true_labels == -1)).all()
    assert noisy.record.n_labeled == 3000 == np.sum(np.array(noisy.record.confusion))
    assert noisy.record.realized_rate == (noisy.labels != true_labels).sum() / 3000 > 0.15


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "pair", "instance"])
@pytest.mark.parametrize("convention", ["inclusive", "exclusive"])
def test_a_rate_of_zero_changes_nothing(kind: Kind, convention: Convention) -> None:
    true_labels = balanced(2000, 10)
    config = NoiseConfig(kind=kind, convention=convention)
    noisy = apply(config, true_labels, 10, seed=0, inputs=np.random.default_rng(0).random((2000, 3)))
    assert (noisy.labels == true_labels).all()
    assert noisy.record.realized_rate == 0


def prototypes(n: int = 6000, n_classes: int = 5, n_kinds: int = 8) -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
    """True labels, the kind of each row (independent of the label), and features that are the same within a kind."""
    rng = np.random.default_rng(1)
    kinds = rng.integers(n_kinds, size=n)
    return rng.integers(n_classes, size=n), kinds, rng.standard_normal((n_kinds, 40))[kinds]


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.2, 0.4, 0.6, 0.9, 1.0])
def test_the_realized_rate_is_the_rate(rate: float) -> None:
    labels, _, features = prototypes()
    given_labels = corrupt_by_features(labels, features, 5, rate, np.random.default_rng(0))
    sigma = np.sqrt(rate * (1 - rate) / len(labels))
    assert abs((given_labels != labels).mean() - rate) <= 4 * sigma + 1e-3


def most_common_share(targets: Ints, n_classes: int) -> float:
    return float(np.bincount(targets, minlength=n_classes).max() / len(targets))


def test_rows_that_look_alike_are_mistaken_for_the_same_class() -> None:
    labels, kinds, features = prototypes()
    given_labels = corrupt_by_features(labels, features, 5, 0.5, np.random.default_rng(0))
    wrong = given_labels != labels
    alike, favorites = [], set()
    for kind in range(8):
        targets = given_labels[wrong & (kinds == kind) & (labels == 0)]
        alike.append(most_common_share(targets, 5))
        favorites.add(int(np.bincount(targets, minlength=5).argmax()))
    assert np.mean(alike) > 0.85  # one of four other classes takes nearly all
    assert len(favorites) >= 2  # and which one depends on the kind
    assert most_common_share(given_labels[wrong & (labels == 0)], 5) < 0.7


def test_the_projection_differs_between_true_classes() -> None:
    labels, kinds, features = prototypes()
    given_labels = corrupt_by_features(labels, features, 5, 1.0, np.random.default_rng(0))
    favorite = {
        (c, k): np.bincount(given_labels[(labels == c) & (kinds == k)], minlength=5).argmax()
        for c in (0, 1)
        for k in range(8)
    }
    # with one projection for all, the favorites of classes 0 and 1 could differ only where they are 0 or 1 themselves
    assert any(favorite[0, k] != favorite[1, k] and {favorite[0, k], favorite[1, k]} <= {2, 3, 4} for k in range(8))


def test_features_without_information_spread_the_mistakes_evenly() -> None:
    labels = np.zeros(20_000, np.int64)
    given_labels = corrupt_by_features(labels, np.ones((20_000, 4)), 5, 1.0, np.random.default_rng(0))
    assert np.abs(np.bincount(given_labels, minlength=5)[1:] / 20_000 - 0.25).max() < 0.015
    assert (given_labels != 0).all()


def test_units_of_a_feature_do_not_matter() -> None:
    labels, _, features = prototypes(500)
    moved = features * np.geomspace(1e-3, 1e3, 40) + np.linspace(-9, 9, 40)
    a, b = (corrupt_by_features(labels, x, 5, 0.5, np.random.default_rng(0)) for x in (features, moved))
    assert (a == b).mean() > 0.995  # up to rounding


def test_images_are_flattened() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (300, 3, 4, 4)).astype(np.uint8)
    labels = rng.integers(4, size=300)
    config = NoiseConfig(kind="instance", rate=0.4)
    flat = apply(config, labels, 4, seed=1, inputs=images.reshape(300, -1).astype(np.float32))
    assert apply(config, labels, 4, seed=1, inputs=images).record == flat.record


@given(rate=st.floats(0, 1))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_flip_rates_are_probabilities_around_the_rate(rate: float) -> None:
    rates = draw_flip_rates(4000, rate, np.random.default_rng(0))
    assert ((rates >= 0) & (rates <= 1)).all()
    assert abs(rates.mean() - rate) < 0.01
    assert rates.std() < 0.11


def test_in_the_middle_flip_rates_spread_as_in_the_paper() -> None:
    assert abs(draw_flip_rates(20_000, 0.5, np.random.default_rng(0)).std() - 0.1) < 0.003


def test_missing_or_broken_inputs_are_named() -> None:
    config, labels = NoiseConfig(kind="instance", rate=0.4), np.array([0, 1, 0])
    with pytest.raises(UserError, match="needs the inputs of all 3 rows; got none"):
        apply(config, labels, 2, seed=0)
    with pytest.raises(UserError, match="all 3 rows; got 2"):
        apply(config, labels, 2, seed=0, inputs=np.zeros((2, 4)))
    with pytest.raises(UserError, match="row 1 has a NaN"):
        apply(config, labels, 2, seed=0, inputs=np.array([[0.0], [np.nan], [1.0]]))
