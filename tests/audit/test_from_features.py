"""The audit of feature vectors without a network."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from pars.audit import from_features, score
from pars.errors import UserError


def classes_apart(n: int = 400, k: int = 4, d: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true = rng.integers(k, size=n)
    x = 4 * np.eye(k, d)[true] + rng.standard_normal((n, d))
    given = np.where(rng.random(n) < 0.15, (true + rng.integers(1, k, n)) % k, true)
    return x, given, true


def test_wrong_labels_of_classes_apart_are_found_and_counted() -> None:
    x, given, true = classes_apart()
    report = from_features(x, given)
    wrong = given != true
    assert roc_auc_score(wrong, -report.label_right_prob) > 0.97
    assert report.noise_rate_low <= wrong.mean() <= report.noise_rate_high
    assert report.can_judge
    assert (report.suggested == true)[wrong & report.is_label_issue].mean() > 0.9
    assert {"self_confidence", "normalized_margin", "neighbor_votes", "linear"} <= set(report.scores)


def test_names_more_features_than_rows_and_unlabeled_rows_are_handled() -> None:
    x, given, _ = classes_apart(n=60, d=90)
    names = np.array(["a", "b", "c", "d"], dtype=object)[given]
    names[3] = None
    report = from_features(x, names)
    assert report.classes == ("a", "b", "c", "d")
    assert np.isnan(report.label_right_prob[3])


def test_random_features_cannot_be_judged() -> None:
    rng = np.random.default_rng(1)
    report = from_features(rng.standard_normal((600, 10)), rng.integers(3, size=600))
    assert not report.can_judge
    assert report.headline.startswith("Cannot judge these labels: ")
    assert report.noise_rate_low == 0


def test_overlapping_classes_without_a_flip_cannot_be_judged() -> None:
    rng = np.random.default_rng(2)
    true = rng.integers(2, size=800)
    score_of_one = 2 * true - 1 + 1.5 * rng.standard_normal(800)
    p = 1 / (1 + np.exp(-score_of_one))
    report = score(np.stack([1 - p, p], axis=1), true)
    assert not report.can_judge
    review = report.review()
    assert report.noise_rate_low == 0 == round(review.expected_precision_low, 6)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.zeros(5), [0, 1, 0, 1, 0], "X has shape"),
        (np.array([[1.0], [np.nan], [2.0]]), [0, 1, 0], "X: row 1 has a value that is not finite"),
        (np.ones((4, 2)), [0, 1, 0, 1], "X is constant"),
        (np.eye(4), [0, 0, 0, 0], "expected at least two classes"),
    ],
)
def test_what_cannot_be_audited_is_refused(x: np.ndarray, y: list[int], words: str) -> None:
    with pytest.raises(UserError, match=words):
        from_features(x, y)


@pytest.mark.parametrize("n", [12, 32, 33, 64])
def test_few_rows_are_split_into_two_halves(n: int) -> None:
    p = np.tile([[0.9, 0.1], [0.2, 0.8]], (n // 2 + 1, 1))[:n]
    report = score(p, np.arange(n) % 2)
    assert np.isfinite(report.label_right_prob).all()
    assert report.noise_rate < 0.2
