"""Wrong labels found by the fit that was not fooled by them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics import roc_auc_score

from estimator.data import QUICK, clouds
from pars import PARSClassifier
from pars.errors import UserError


def test_wrong_labels_come_first_and_right_ones_are_suggested() -> None:
    x, y, true = clouds(300, wrong=0.3)
    report = PARSClassifier(random_state=0).fit(x, y).audit(x)
    wrong = y != true
    assert roc_auc_score(wrong, 1 - report.label_right_prob) > 0.97
    assert (report.suggested_label == true).mean() > 0.95
    assert abs(report.noise_rate - wrong.mean()) < 0.05
    assert "knn_agree" in report.evidence


def test_suggestions_are_in_the_words_of_the_labels() -> None:
    x, y, _ = clouds(90)
    names = np.array(["cat", "dog", "eel"])
    report = PARSClassifier(unlabeled="", **QUICK).fit(x, np.where(np.arange(90) < 5, "", names[y])).audit()
    assert set(report.suggested_label) <= set(names)
    assert report.given_label[0] is None
    numbers = PARSClassifier(**QUICK).fit(x, y).audit()
    assert_array_equal(numbers.given_label, y)
    others = PARSClassifier(**QUICK).fit(x, 10 * y).audit()
    assert_array_equal(others.given_label, 10 * y)


def test_a_pickled_classifier_can_still_be_audited() -> None:
    x, y, _ = clouds(60)
    model = PARSClassifier(**QUICK).fit(x, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.audit().label_right_prob, model.audit().label_right_prob)


def test_without_a_record_there_is_nothing_to_audit() -> None:
    x, y, _ = clouds(60)
    model = PARSClassifier(train_params={"dynamics_every": 0}, **QUICK).fit(x, y)
    with pytest.raises(UserError, match="nothing was recorded"):
        model.audit()
