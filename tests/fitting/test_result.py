"""Comparisons on noisy labels against simulation, where the right labels are known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from pars.fitting.result import Gain, gain, noise_corrected

K = 5
Labels = npt.NDArray[np.int64]


def spoiled(labels: Labels, share: float, rng: np.random.Generator) -> Labels:
    """A share of the labels, drawn row by row, moved to another class at random."""
    moved = (labels + rng.integers(1, K, len(labels))) % K
    return np.where(rng.random(len(labels)) < share, moved, labels)


def test_the_interval_holds_the_true_difference_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        true = rng.integers(0, K, 300)
        found = gain(spoiled(true, 0.20, rng), spoiled(true, 0.25, rng), true)
        held += found.low <= 0.05 <= found.high
    assert 0.92 <= held / 400 <= 0.98


def test_what_noisy_labels_say_is_what_right_labels_would_have_said() -> None:
    rng = np.random.default_rng(1)
    true = rng.integers(0, K, 200_000)
    good, bad, given = (spoiled(true, share, rng) for share in (0.1, 0.3, 0.4))
    seen = gain(good, bad, given)
    clean = noise_corrected(seen, 0.4, K)
    assert clean is not None
    assert seen.gain == pytest.approx(0.2 * 0.5, abs=0.01)  # slope 1 - 0.4 - 0.1
    assert (clean.robust, clean.plain, clean.gain) == pytest.approx((0.9, 0.7, 0.2), abs=0.01)
    assert clean.low < 0.2 < clean.high


def test_few_rows_or_equal_predictions_prove_nothing() -> None:
    y = np.array([0, 1, 0, 1])
    assert gain(y, y, y).verdict == "inconclusive"
    assert gain(y, 1 - y, np.array([0, 1, 0, 0])).verdict == "inconclusive"
    same = gain(np.zeros(1000, dtype=np.int64), np.zeros(1000, dtype=np.int64), np.arange(1000) % 2)
    assert same.low < 0 < same.high
    assert same.high < 0.01


def test_it_says_when_it_hurt() -> None:
    y = np.arange(500) % K
    worse = np.where(np.arange(500) % 10 == 0, (y + 1) % K, y)
    assert gain(worse, y, y).verdict == "hurt"
    clean = noise_corrected(gain(worse, y, y), 0.3, K)
    assert clean is not None
    assert clean.verdict == "hurt"


def test_labels_that_are_pure_noise_say_nothing() -> None:
    seen = Gain(100, 0.2, 0.2, 0.0, -0.1, 0.1)
    assert noise_corrected(seen, 0.8, K) is None
    assert noise_corrected(seen, 0.73, K) is None  # nearly


def test_no_classifier_is_better_by_more_than_all_rows() -> None:
    clean = noise_corrected(Gain(100, 0.05, 0.6, -0.55, -0.7, -0.4), 0.6, K)
    assert clean is not None
    assert (clean.robust, clean.plain, clean.gain, clean.low, clean.high) == (0, 1, -1, -1, -1)
