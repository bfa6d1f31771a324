"""Thresholds from noisy labels against worlds in which the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from pars.methods.parts import reliability
from pars.methods.stage import State


def world(n: int, k: int, noise: float, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Logits whose confidence c means 'right in a share min(1, 2c)', labels of inclusive symmetric noise, the truth."""
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(1.5 / k, 0.7, n)
    right = rng.random(n) < np.minimum(1, 2 * confidence)
    predicted = rng.integers(k, size=n)
    true = np.where(right, predicted, (predicted + rng.integers(1, k, n)) % k)
    given = np.where(rng.random(n) < noise, rng.integers(k, size=n), true)
    # What is left is shared out unevenly, with more for the truth: it is seldom among the last choices.
    rest = rng.uniform(0.5, 1.5, (n, k))
    rest[np.arange(n), true] += 1.0
    rest[np.arange(n), predicted] = 0
    probabilities = rest / rest.sum(axis=1, keepdims=True) * (1 - confidence)[:, None]
    probabilities = np.minimum(probabilities, 0.9 * confidence[:, None])
    probabilities[np.arange(n), predicted] = confidence
    logits = np.log(probabilities / probabilities.sum(axis=1, keepdims=True))
    return torch.from_numpy(logits).float(), torch.from_numpy(given), torch.from_numpy(true)


def counted(logits: Tensor, labels: Tensor) -> State:
    state = reliability.empty("x")
    reliability.count(state, "x", logits, labels)
    return state


@pytest.mark.parametrize("noise", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("precision", [0.8, 0.95])
def test_as_many_are_right_as_was_asked_for(noise: float, precision: float) -> None:
    logits, given, true = world(200_000, 10, noise)
    state = reliability.empty("x")
    for start in range(0, len(given), 1_000):
        reliability.count(state, "x", logits[start : start + 1_000], given[start : start + 1_000])
    found = reliability.threshold(state, "x", 10, 0.99, precision)
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    sure = confidence > found
    assert (predicted == true)[sure].float().mean() == pytest.approx(precision, abs=0.04)
    # …and it is not a needlessly small set: a little lower and too few would be right.
    lower = confidence > found - 0.08
    assert (predicted == true)[lower].float().mean() < precision


def test_labels_that_say_nothing_leave_the_threshold_where_it_was() -> None:
    logits, _, _ = world(5_000, 10, 0.0)
    random = torch.from_numpy(np.random.default_rng(1).integers(10, size=5_000))
    counts = counted(logits, random)
    assert reliability.threshold(counts, "x", 10, 0.95, 0.9) == pytest.approx(0.95)
    assert reliability.threshold(reliability.empty("x"), "x", 10, 0.95, 0.9) == pytest.approx(0.95)


def test_a_handful_of_labels_proves_nothing() -> None:
    logits, given, _ = world(20, 10, 0.8)
    counts = counted(logits, given)
    assert reliability.threshold(counts, "x", 10, 0.95, 0.9) == pytest.approx(0.95)


def test_it_never_rises_above_what_it_is_without_labels() -> None:
    logits, given, _ = world(5_000, 10, 0.0)
    counts = counted(logits, given)
    assert reliability.threshold(counts, "x", 10, 0.2, 0.8) == pytest.approx(0.2)


def test_rows_without_a_label_do_not_count() -> None:
    logits, given, _ = world(100, 5, 0.5)
    withheld = given.clone()
    withheld[50:] = -1
    half = counted(logits[:50], given[:50])["reliability_x"]
    assert torch.equal(counted(logits, withheld)["reliability_x"], half)
    assert half[:, 0].sum() == 50


def test_old_counts_fade() -> None:
    logits, given, _ = world(100, 5, 0.5)
    once = counted(logits, given)["reliability_x"]
    state = {"reliability_x": once}
    reliability.count(state, "x", logits, given)
    twice = state["reliability_x"]
    torch.testing.assert_close(twice, (1 + torch.tensor(reliability.FADE)) * once)
