"""Instance noise: at its rate, never towards the true class, and really a function of the input."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pars.errors import UserError
from pars.noise import NoiseConfig, apply, corrupt_by_features
from pars.noise.instance import draw_flip_rates

Ints = npt.NDArray[np.int64]


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
    with pytest.raises(UserError, match="needs the inputs of all 3 rows; there are none"):
        apply(config, labels, 2, seed=0)
    with pytest.raises(UserError, match="all 3 rows; there are 2"):
        apply(config, labels, 2, seed=0, inputs=np.zeros((2, 4)))
    with pytest.raises(UserError, match="row 1 has a NaN"):
        apply(config, labels, 2, seed=0, inputs=np.array([[0.0], [np.nan], [1.0]]))
