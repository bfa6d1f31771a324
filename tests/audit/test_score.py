"""The audit of probabilities whose every right answer is known."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import average_precision_score, roc_auc_score

from audit.worlds import World, calibration_error, world
from pars.audit import AuditReport, score
from pars.errors import UserError

WORLDS: dict[str, World] = {
    "20 % symmetric": world(),
    "half symmetric": world(rate=0.5, k=10, n=8000, seed=1),
    "a third to the next class": world(rate=0.33, kind="pair", seed=2),
    "two classes": world(rate=0.2, k=2, seed=3),
    "5 % of many classes": world(rate=0.05, k=60, n=8000, sharp=20.0, seed=4),
}


@pytest.fixture(scope="module", params=WORLDS.values(), ids=list(WORLDS))
def audited(request: pytest.FixtureRequest) -> tuple[World, AuditReport]:
    return request.param, score(request.param.p, request.param.labels)


def test_probabilities_that_labels_are_right_are_calibrated(audited: tuple[World, AuditReport]) -> None:
    here, report = audited
    assert calibration_error(report.label_right_prob, ~here.wrong) <= 0.05


def test_suspects_are_nearly_those_of_the_exact_posterior(audited: tuple[World, AuditReport]) -> None:
    here, report = audited
    best = roc_auc_score(here.wrong, -here.right)
    assert roc_auc_score(here.wrong, -report.label_right_prob) > best - 0.01
    assert roc_auc_score(here.wrong, -report.rank) == pytest.approx(
        roc_auc_score(here.wrong, -report.label_right_prob), abs=1e-3
    )


def test_the_noise_rate_is_near_and_its_range_holds_the_truth(audited: tuple[World, AuditReport]) -> None:
    here, report = audited
    assert report.noise_rate == pytest.approx(here.wrong.mean(), abs=0.03)
    assert report.noise_rate_low <= here.wrong.mean() <= report.noise_rate_high
    assert report.noise_rate == pytest.approx(1 - report.label_right_prob.mean())


def test_the_transition_matrix_is_near_the_true_one(audited: tuple[World, AuditReport]) -> None:
    here, report = audited
    assert_allclose(report.transition_matrix.sum(axis=1), 1, atol=1e-6)
    assert np.abs(report.transition_matrix - here.transition).sum(axis=1).mean() < 0.12


def test_suggestions_of_flagged_wrong_labels_are_mostly_right(audited: tuple[World, AuditReport]) -> None:
    here, report = audited
    flagged = report.is_label_issue & here.wrong
    assert flagged.sum() > 0.8 * here.wrong.sum()
    assert (report.suggested_label == here.true)[flagged].mean() > 0.9
    assert_array_equal(report.is_label_issue, report.suggested_label != here.labels)


def test_what_a_review_expects_is_what_it_finds() -> None:
    here = WORLDS["20 % symmetric"]
    report = score(here.p, here.labels)
    for n in (100, 500, 1500):
        review = report.review(n)
        assert len(review) == n
        assert review.expected_precision == pytest.approx(here.wrong[review.rows].mean(), abs=0.04)
        assert review.expected_recall == pytest.approx(here.wrong[review.rows].sum() / here.wrong.sum(), abs=0.06)
        assert review.expected_precision == pytest.approx(np.mean(1 - report.label_right_prob[review.rows]))
    many = report.review(precision=0.8)
    assert many.expected_precision >= 0.8
    assert report.review(len(many) + 1).expected_precision < 0.8
    assert len(report.review()) == report.is_label_issue.sum()
    assert len(report.review(10**9)) == len(report)
    assert len(report.review(0)) == 0


def test_noise_that_grows_with_difficulty_is_calibrated_where_a_transition_matrix_is_not() -> None:
    rng = np.random.default_rng(5)
    n, k = 8000, 4
    easy = rng.random(n)  # the network's lead, and how rarely people err
    true = rng.integers(k, size=n)
    noise = 0.5 * (1 - easy) ** 2
    labels = np.where(rng.random(n) < noise, (true + rng.integers(1, k, size=n)) % k, true)
    p = np.tile((noise / (k - 1))[:, None], (1, k))
    p[np.arange(n), true] = 1 - noise
    report = score(p, labels)
    wrong = labels != true
    assert calibration_error(report.label_right_prob, ~wrong) < 0.03
    assert report.noise_rate == pytest.approx(wrong.mean(), abs=0.02)


def test_a_temperature_of_the_network_changes_next_to_nothing() -> None:
    here = WORLDS["20 % symmetric"]
    soft = here.p**0.4
    soft /= soft.sum(axis=1, keepdims=True)
    one, other = score(here.p, here.labels), score(soft, here.labels)
    assert_allclose(one.label_right_prob, other.label_right_prob, atol=0.01)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_half_precision_and_zeros_change_little(dtype: type[np.floating[Any]]) -> None:
    here = WORLDS["half symmetric"]
    rough = np.asarray(here.p, dtype=dtype)
    rough[here.p < 0.02] = 0
    report = score(rough, here.labels)
    assert np.isfinite(report.label_right_prob).all()
    assert calibration_error(report.label_right_prob, ~here.wrong) < 0.06
    exact = score(here.p, here.labels)
    assert average_precision_score(here.wrong, -report.label_right_prob) > (
        average_precision_score(here.wrong, -exact.label_right_prob) - 0.02
    )


def test_the_order_of_rows_and_of_classes_does_not_matter() -> None:
    here = world(n=600)
    rng = np.random.default_rng(6)
    rows, classes = rng.permutation(600), rng.permutation(5)
    number = np.argsort(classes)  # where a class has gone
    one = score(here.p, here.labels)
    other = score(here.p[rows][:, classes], number[here.labels[rows]])
    assert_allclose(other.label_right_prob, one.label_right_prob[rows], atol=3e-5)
    assert_array_equal(other.suggested_label, number[one.suggested_label[rows]])
    assert_allclose(other.transition_matrix, one.transition_matrix[np.ix_(classes, classes)], atol=1e-5)


def test_rows_without_a_label_are_given_one_and_no_rank() -> None:
    here = world(n=1000)
    labels = here.labels.copy()
    labels[::5] = -1
    report = score(here.p, labels)
    none = labels < 0
    assert np.isnan(report.label_right_prob[none]).all()
    assert np.isnan(report.margin[none]).all()
    assert (report.rank[none] == 0).all()
    assert sorted(report.rank[~none]) == list(range(1, (~none).sum() + 1))
    assert not report.is_label_issue[none].any()
    assert (report.suggested_label == here.true)[none].mean() > 0.9
    assert "no label" in report.why[0]
    assert set(report.suspects) == set(np.flatnonzero(~none))
    without = score(here.p[~none], labels[~none])
    assert_allclose(report.label_right_prob[~none], without.label_right_prob, atol=0.02)


def test_names_and_numbers_give_the_same_report() -> None:
    here = world(n=300)
    names = ["a", "b", "c", "d", "e"]
    numbers = score(here.p, here.labels)
    labels = np.array(names, dtype=object)[here.labels]
    labels[3], labels[4] = None, ""
    for missing in (float("nan"), np.float32("nan"), " ", -1):
        other = labels.copy()
        other[3] = missing
        assert np.isnan(score(here.p, other, classes=names).label_right_prob[[3, 4]]).all()
    named = score(here.p, labels, classes=names)
    assert named.suggested_label[0] == names[numbers.suggested_label[0]]
    assert named.given_label[3] == ""
    assert np.isnan(named.label_right_prob[[3, 4]]).all()
    as_floats = here.labels.astype(float)
    as_floats[3:5] = np.nan
    assert_array_equal(score(here.p, as_floats, classes=names).label_right_prob, named.label_right_prob)


def test_labels_of_pandas_may_be_missing() -> None:
    pandas = pytest.importorskip("pandas")
    here = world(n=300)
    labels = pandas.Series(here.labels, dtype="Int64")
    labels[3] = pandas.NA
    assert np.flatnonzero(np.isnan(score(here.p, labels).label_right_prob)).tolist() == [3]


def test_clean_labels_are_left_alone() -> None:
    here = world(rate=0.0, sharp=20.0)
    report = score(here.p, here.labels)
    assert report.noise_rate < 0.015  # the network is wrong on 0.7 %
    assert report.is_label_issue.mean() < 0.01


def test_swapped_and_small_classes_are_warned_of() -> None:
    here = world(n=2000)
    swapped = here.labels.copy()
    swapped[here.true == 1] = 2
    report = score(here.p, swapped)
    assert any("mostly labeled as another class: 1 as 2" in words for words in report.warnings)
    rare = here.labels.copy()
    rare[np.flatnonzero(rare == 4)[3:]] = 0
    assert any("few labels of: 4 (3)" in words for words in score(here.p, rare).warnings)


@pytest.mark.parametrize(("n", "k"), [(1, 2), (2, 2), (10, 2), (10, 5), (12, 40), (500, 300)])
def test_few_rows_and_many_classes_are_no_obstacle(n: int, k: int) -> None:
    here = world(n=n, k=k, sharp=4.0)
    report = score(here.p, here.labels)
    assert np.isfinite(report.label_right_prob).all()
    assert 0 <= report.noise_rate_low <= report.noise_rate <= report.noise_rate_high <= 1
    assert np.isfinite(report.transition_matrix).all()
    assert len(report.why) == n


ONE_HOT = np.eye(3)[np.arange(60) % 3]
EDGES: dict[str, tuple[Any, Any]] = {
    "one class only": (np.full((60, 3), 1 / 3), np.zeros(60, int)),
    "a network that knows nothing": (np.full((60, 3), 1 / 3), np.arange(60) % 3),
    "one that is certain and agrees": (ONE_HOT, np.arange(60) % 3),
    "one that never agrees": (ONE_HOT, (np.arange(60) + 1) % 3),
    "two labels": (ONE_HOT, [0, 1] + [-1] * 58),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("p", "labels"), EDGES.values(), ids=list(EDGES))
def test_uninformative_probabilities_and_labels_are_handled(p: Any, labels: Any) -> None:
    report = score(p, labels)
    labeled = report.given >= 0
    assert np.isfinite(report.label_right_prob[labeled]).all()
    assert 0 <= report.noise_rate_low <= report.noise_rate <= report.noise_rate_high <= 1


def test_further_views_give_evidence_and_one_more_estimate() -> None:
    here = world(n=600)
    rng = np.random.default_rng(7)
    features = np.eye(5)[here.true] + 0.1 * rng.standard_normal((600, 5))
    independent = np.eye(5)[np.where(rng.random(600) < 0.1, rng.integers(5, size=600), here.true)]
    report = score(here.p, here.labels, features=features, early=independent)
    assert (
        report.evidence["knn_agree"][~here.wrong].mean() > 0.7 > 0.3 > report.evidence["knn_agree"][here.wrong].mean()
    )
    assert report.estimators["votes"] == pytest.approx(here.wrong.mean(), abs=0.03)
    assert "of its neighbors are labeled" in report.why[0]
    assert report.warnings == ()
    assert any("nearly always agree" in words for words in score(here.p, here.labels, early=here.p).warnings)


def test_confusions_are_counted() -> None:
    here = WORLDS["a third to the next class"]
    report = score(here.p, here.labels)
    pairs = {(int(pair.true), int(pair.given)) for pair in report.confused[:5]}
    assert pairs == {(j, (j + 1) % 5) for j in range(5)}
    counted = ((here.true == 0) & (here.labels == 1)).sum()
    assert next(p for p in report.confused if p.true == "0").expected_rows == pytest.approx(counted, rel=0.15)


P = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("p", "labels", "more", "words"),
    [
        (P[:, 0], [0, 1, 0], {}, r"probabilities has shape \[3\]"),
        (P[:, :1], [0, 0, 0], {}, "two classes or more"),
        (P * 3 - 1, [0, 1, 0], {}, r"row 0 is \[1.7, -0.7\], expected numbers from 0 to 1"),
        (np.where(P == 0.2, np.nan, P), [0, 1, 0], {}, "row 1 is"),
        (P / 2, [0, 1, 0], {}, "row 0 sums to 0.5, expected 1: are these logits"),
        (np.eye(2, dtype=int), [0, 1], {}, "expected floating-point numbers"),
        (P, [0, 1], {}, r"labels have shape \[2\], expected \[3\]"),
        (P, [0, 2, 1], {}, "row 1 is .*2.*, expected a class number from 0 to 1, -1 = none"),
        (P, [0, 1, -2], {}, "row 2 is"),
        (P, [0, 0.5, 1], {}, "row 1 is .*0.5.*, expected a whole number"),
        (P, [-1, -1, -1], {}, "no row has a label"),
        (P, ["a", "b", "a"], {}, "labels are names: pass classes="),
        (P, ["a", "x", "b"], {"classes": ["a", "b"]}, "row 1 is 'x', expected one of"),
        (P, [0, 1, 0], {"classes": ["a"]}, "expected 2 different names"),
        (P, [0, 1, 0], {"early": P[:2]}, r"early has shape \[2, 2\], expected \[3, 2\]"),
        (P, [0, 1, 0], {"features": [[1.0], [np.inf], [0.0]]}, "features: row 1 has a value that is not finite"),
    ],
)
def test_what_cannot_be_audited_is_refused_by_name(p: Any, labels: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        score(p, labels, **more)


def test_a_review_is_asked_for_in_one_way() -> None:
    report = score(P, [0, 1, 0])
    for wrong in ({"n": 1, "precision": 0.5}, {"n": -1}, {"precision": 1.5}):
        with pytest.raises(UserError):
            report.review(**wrong)


def test_the_audit_does_not_import_torch() -> None:
    code = "import sys, pars.audit; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
