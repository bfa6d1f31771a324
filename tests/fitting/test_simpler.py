"""Logistic regression in place of PARS, where held-out labels clearly prefer it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.linear_model import LogisticRegression

import pars
import pars.fitting
from pars import PARSClassifier, RobustClassifier
from pars.autoconfig import rules
from pars.classic import linear_predictions
from pars.data import Dataset, Split
from pars.errors import SimplerModelWarning


def rows(n: int = 900) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Three classes, three features and three that mean nothing; a fifth of the labels are wrong."""
    rng = np.random.default_rng(0)
    true = rng.integers(3, size=n)
    x = 2 * np.eye(3, 6)[true] + rng.standard_normal((n, 6))
    return x.astype(np.float32), np.where(rng.random(n) < 0.2, rng.integers(3, size=n), true)


def rings(n: int = 900) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Two classes that no line separates: a point is in the unit circle or not."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.25, 1.25, size=(n, 2)).astype(np.float32)
    true = (x**2).sum(axis=1) < 1
    return x, np.where(rng.random(n) < 0.2, rng.integers(2, size=n), true)


UNTRAINED: dict[str, Any] = {"epochs": 1, "lr": 1e-6}


def test_what_pars_did_not_learn_logistic_regression_predicts() -> None:
    x, y = rows()
    with pytest.warns(SimplerModelWarning, match=r"logistic regression predicts \d\d\.\d % of \d+ held-out labels"):
        model = PARSClassifier(random_state=0, **UNTRAINED).fit(x, y)
    expected = RobustClassifier("logistic-regression", holdout=100 / 900, random_state=0).fit(x, y)
    np.testing.assert_allclose(model.predict_proba(x), expected.predict_proba(x), atol=1e-6)
    assert model.audit().is_label_issue.any()


@pytest.mark.filterwarnings("error::pars.errors.SimplerModelWarning")
def test_pars_stays_where_it_is_better() -> None:
    x, y = rings()
    assert PARSClassifier(random_state=0).fit(x, y).config_.train.epochs > 1


@pytest.mark.filterwarnings("error::pars.errors.SimplerModelWarning")
@pytest.mark.parametrize("params", [{"network": "mlp"}, {"select": "last"}])
def test_pars_stays_where_the_user_chose_what_is_returned(params: dict[str, Any]) -> None:
    x, y = rows()
    assert PARSClassifier(random_state=0, **UNTRAINED, **params).fit(x, y).config_.train.epochs == 1


@pytest.mark.filterwarnings("error::pars.errors.SimplerModelWarning")
def test_other_methods_stay_what_they_are() -> None:
    x, y = rows()
    RobustClassifier("ce", random_state=0, **UNTRAINED).fit(x, y)


def test_a_fit_in_a_folder_is_resumed_with_the_linear_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows(600)
    automatic = rules.settings

    def untrained(*args: Any) -> rules.Changes:
        found = automatic(*args)
        return found | {"train": found["train"] | UNTRAINED}

    monkeypatch.setattr(rules, "settings", untrained)  # a fit takes no settings of training: all are automatic
    labels = y.astype(str)
    with pytest.warns(UserWarning, match="logistic regression is returned"):
        first = pars.fit(x, labels, out=tmp_path / "fit")
    second = pars.fit(x, labels, out=tmp_path / "fit")
    assert first.replaced == second.replaced == "pars"
    assert first.summary() == second.summary()
    assert "logistic-regression takes the place of pars" in str(first)
    assert (pars.fitting.load_predictor(tmp_path / "fit").predict_proba(x) == first.predict_proba(x)).all()
    assert (pars.fitting.audit_fit(tmp_path / "fit").is_label_issue == first.audit.is_label_issue).all()


def test_the_penalty_is_the_one_that_predicts_most_judged_labels() -> None:
    x, y = rows()
    judged = np.arange(900) >= 700
    dataset = Dataset("rows", Split(x, y), None, ("a", "b", "c"))
    found = linear_predictions(dataset, ~judged, judged)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    best = max(
        LogisticRegression(C=C, max_iter=1000).fit(z[~judged], y[~judged]).score(z[judged], y[judged])
        for C in (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 0.1, 1.0, 10.0)
    )
    assert (found == y[judged]).mean() == pytest.approx(best, abs=0.006)
