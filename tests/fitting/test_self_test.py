"""What a self-test measures, where labels were wrong before."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from pars.fitting.self_test import flip_labels, measure


def test_auroc_and_precision_are_those_on_all_wrong_labels_though_a_quarter_was_wrong_before() -> None:
    rng = np.random.default_rng(0)
    n, k = 20_000, 4
    true = rng.integers(k, size=n)
    before = np.where(rng.random(n) < 0.25, (true + rng.integers(1, k, n)) % k, true)
    after = flip_labels(before, k, 0.1, seed=0)
    wrong = after != true
    suspicion = wrong + 0.5 * rng.standard_normal(n)
    flagged = suspicion > 0.6
    moved = after != before
    found = measure(suspicion, moved, flagged, float(wrong.mean()), k)
    assert abs(found.auroc - roc_auc_score(wrong, suspicion)) < 0.03
    assert abs(found.precision - wrong[flagged].mean()) < 0.03
    assert abs(found.wrong_before - 0.25) < 0.02
    assert roc_auc_score(moved, suspicion) < found.auroc - 0.1  # what flips alone would say
