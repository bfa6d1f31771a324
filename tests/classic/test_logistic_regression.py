"""Logistic regression against scikit-learn's own LogisticRegressionCV and LogisticRegression."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.linear_model import LogisticRegression as Sklearn
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import pars
from pars.classic.logistic_regression import LogisticRegression
from pars.errors import UserError

CS = (1e-3, 0.03, 1.0)


def rows(n: int = 200, k: int = 3, seed: int = 0) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    true = rng.integers(k, size=n)
    x = 1.5 * np.eye(k, 6)[true] + rng.standard_normal((n, 6))
    return x, np.where(rng.random(n) < 0.3, rng.integers(k, size=n), true)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("k", [2, 3, 5])
def test_penalty_and_predictions_are_those_of_scikit_learn(k: int) -> None:
    x, y = rows(600, k, seed=3)
    folds = StratifiedKFold(5, shuffle=True, random_state=7)
    theirs = LogisticRegressionCV(Cs=CS, cv=folds, scoring="accuracy", max_iter=1000).fit(x, y)
    C = float(np.ravel(theirs.C_)[0])
    accuracies = np.sort(next(iter(theirs.scores_.values())).mean(axis=0))
    assert accuracies[-1] > accuracies[-2]  # of equals scikit-learn takes the first
    ours, out_of_fold = LogisticRegression(Cs=CS).fit(x, y, k, seed=7)
    new = rows(50, k, seed=1)[0]
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=2e-3)
    expected = cross_val_predict(Sklearn(C=C, max_iter=1000), x, y, cv=folds, method="predict_proba")
    np.testing.assert_allclose(out_of_fold, expected, atol=2e-3)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_weak_penalties_that_are_not_tried_are_not_those_that_trying_all_would_choose() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1500, 200)).astype(np.float32)
    y = x[:, :4].argmax(axis=1)
    y = np.where(rng.random(1500) < 0.6, rng.integers(4, size=1500), y)
    settings = LogisticRegression()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    of_all = [cross_val_predict(Sklearn(C=C, max_iter=1000), x, y, cv=folds) == y for C in settings.Cs]
    _, out_of_fold = settings.fit(x, y, 4, seed=0)
    assert np.mean(out_of_fold.argmax(axis=1) == y) == pytest.approx(np.mean(of_all, axis=1).max(), abs=2e-3)


def test_a_class_that_a_fold_lacks_has_probability_0_there_and_unused_classes_everywhere() -> None:
    x, y = rows(60)
    y[y == 2] = 0
    y[17] = 3  # the only row of its class
    model, out_of_fold = LogisticRegression(Cs=(0.1,)).fit(x, y, 5, seed=0)
    assert out_of_fold[17, 3] == 0
    assert (out_of_fold[:, [2, 4]] == 0).all()
    assert (model.predict_proba(x)[:, [2, 4]] == 0).all()
    np.testing.assert_allclose(
        model.predict_proba(x)[:, [0, 1, 3]], Sklearn(C=0.1).fit(x, y).predict_proba(x), atol=1e-3
    )
    np.testing.assert_allclose(out_of_fold.sum(axis=1), 1)


def test_of_equally_accurate_penalties_the_likeliest_is_chosen() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    x = np.where(y[:, None] == 1, 5.0, -5.0) + 0.1 * rng.standard_normal((40, 2))  # every penalty separates them
    model, _ = LogisticRegression(Cs=(10.0, 0.01, 1.0)).fit(x, y, 2, seed=0)
    np.testing.assert_allclose(model.predict_proba(x), Sklearn(C=10.0).fit(x, y).predict_proba(x), atol=1e-4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"Cs": ()}, r"method\.Cs is \[\], expected numbers above 0"),
        ({"Cs": (1.0, 0.0)}, r"method\.Cs is \[1\.0, 0\.0\]"),
        ({"folds": 1}, r"method\.folds is 1, expected a whole number from 2"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        LogisticRegression(**wrong)  # type: ignore[arg-type]


def test_rows_of_different_classes_only_cannot_be_left_out() -> None:
    with pytest.raises(UserError, match="needs a class with two labeled rows"):
        LogisticRegression().fit(np.eye(3), np.arange(3), 3, seed=0)


@pytest.mark.parametrize("n", [60, 120])
def test_few_rows_of_classes_that_lie_apart_are_told_apart(n: int) -> None:
    """Of few rows, accuracy goes up and down with penalties that are too strong: the search must not stop there."""
    rng, y = np.random.default_rng(0), np.arange(n) % 2
    x = np.array([[2 * label + rng.random(), rng.random()] for label in y])
    result = pars.fit(x, y, method="logistic-regression", baseline=False)
    assert result.predict_proba(x)[np.arange(n), y].mean() > 0.9
