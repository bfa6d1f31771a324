"""The audit of a fitted classifier, on labels of which we know which ones are wrong."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from pars import PARSClassifier
from pars.errors import UserError

Array = Any
NAMES = np.array(["zero", "one", "two", "three"])


def four_digits() -> tuple[Array, Array, Array]:
    """Digits 0 to 3, their names, and names of which three in ten are wrong."""
    x, y = load_digits(return_X_y=True)
    x, y = x[y < 4], y[y < 4]
    rng = np.random.default_rng(0)
    given = np.where(rng.random(len(y)) < 0.3, (y + rng.integers(1, 4, len(y))) % 4, y)
    return x, NAMES[y], NAMES[given]


@pytest.fixture(scope="module")
def fitted() -> tuple[PARSClassifier, Array, Array, Array]:
    x, true, given = four_digits()
    return PARSClassifier(random_state=0).fit(x, given), x, true, given


def test_wrong_labels_are_found_and_mended_in_the_words_they_were_given(fitted: Any) -> None:
    model, _, true, given = fitted
    report = model.audit()
    assert (report.given_label == given).all()
    wrong = given != true
    assert roc_auc_score(wrong, 1 - report.label_right_prob) > 0.97
    assert (report.suggested_label == true).mean() > 0.95
    assert report.noise_rate == pytest.approx(wrong.mean(), abs=0.05)
    assert set(report.classes) == set(NAMES)


def test_neighbours_are_asked_where_the_rows_are_given_again(fitted: Any) -> None:
    model, x, true, given = fitted
    report = model.audit(x)
    assert "knn_agree" in report.evidence
    assert roc_auc_score(given != true, 1 - report.label_right_prob) > 0.97


def test_a_pickled_classifier_audits_the_same(fitted: Any) -> None:
    model = fitted[0]
    again = pickle.loads(pickle.dumps(model))
    assert (again.audit().label_right_prob == model.audit().label_right_prob).all()


def test_unlabelled_rows_get_a_suggestion_and_no_verdict() -> None:
    x, _, given = four_digits()
    labels = given.astype(object)
    labels[::5] = None
    report = PARSClassifier(random_state=0, unlabeled=None, epochs=10).fit(x, labels).audit()
    assert np.isnan(report.label_right_prob[::5]).all()
    assert set(report.suggested_label[::5]) <= set(NAMES)
    assert report.given_label[0] is None


def test_a_fit_that_recorded_nothing_says_so() -> None:
    x, _, given = four_digits()
    model = PARSClassifier(random_state=0, epochs=2, train_params={"dynamics_every": 0}).fit(x, given)
    with pytest.raises(UserError, match="dynamics_every = 0"):
        model.audit()
