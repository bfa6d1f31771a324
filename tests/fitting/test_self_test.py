"""What a self-test measures, where labels were wrong before."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from pars.fitting.self_test import Rows, auroc, flip_labels

DEVIATION = 0.4  # of the evidence


def world(n: int, k: int, rate: float, seed: int) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """A calibrated audit of flipped labels, a share of which was wrong before; and which are wrong now."""
    rng = np.random.default_rng(seed)
    true = rng.integers(k, size=n)
    before = np.where(rng.random(n) < rate, (true + rng.integers(1, k, n)) % k, true)
    after = flip_labels(before, k, 0.1, seed=seed)
    wrong = after != true
    evidence = wrong + DEVIATION * rng.standard_normal(n)
    now = float(wrong.mean())
    right = 1 / (1 + np.exp(-np.log((1 - now) / now) - (1 - 2 * evidence) / (2 * DEVIATION**2)))
    return Rows(right, after != before, right < 0.5, now, k), wrong


def test_auroc_and_precision_are_those_on_all_wrong_labels_though_a_quarter_was_wrong_before() -> None:
    rows, wrong = world(20_000, 4, 0.25, 0)
    found = rows.measure(rows.noise_rate)
    assert abs(found.auroc - roc_auc_score(wrong, -rows.right)) < 0.01
    assert abs(found.precision - wrong[rows.flagged].mean()) < 0.01
    assert abs(found.wrong_before - 0.25) < 0.02
    assert roc_auc_score(rows.moved, -rows.right) < found.auroc - 0.1  # what flips alone would say


def test_twenty_flips_tell_as_well_however_many_of_them_hit_labels_that_were_wrong() -> None:
    errors = []
    for seed in range(40):
        rows, wrong = world(200, 2, 0.2, seed)
        found = rows.measure(rows.noise_rate)
        errors.append((found.auroc - roc_auc_score(wrong, -rows.right), found.precision - wrong[rows.flagged].mean()))
    assert np.abs(np.mean(errors, axis=0)).max() < 0.02
    assert np.mean(np.abs(errors) < 0.05) > 0.85


def test_an_audit_that_believes_every_label_is_not_excused_by_chance() -> None:
    rows, wrong = world(2000, 5, 0.2, 1)
    rng = np.random.default_rng(0)
    believing = Rows(1 - 1e-6 * rng.random(len(wrong)), rows.moved, rows.flagged, rows.noise_rate, 5)
    assert believing.measure(rows.noise_rate).auroc < 0.6


def test_probabilities_of_being_positive_weigh_as_that_many_rows() -> None:
    rng = np.random.default_rng(0)
    scores, positive = rng.integers(0, 9, 60).astype(float), rng.integers(0, 5, 60) / 4
    times = (positive * 4).astype(int)
    one = np.concatenate([np.repeat(scores, times), np.repeat(scores, 4 - times)])
    assert np.isclose(auroc(scores, positive), roc_auc_score(np.arange(240) < times.sum(), one))
