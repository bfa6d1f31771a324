"""What scikit-learn asks of an estimator, by its own checks and tools."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from estimator.data import QUICK, clouds
from pars import PARSClassifier, RobustClassifier


def test_every_check_of_scikit_learn_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it one check is skipped
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = check_estimator(PARSClassifier(), on_skip=None)
    assert len(done) > 50
    assert {check["status"] for check in done} == {"passed"}
    assert not any(check["expected_to_fail"] for check in done)


def test_importing_the_package_imports_neither_torch_nor_scikit_learn() -> None:
    code = "import sys, pars; print({'torch', 'sklearn'} & set(sys.modules)); pars.PARSClassifier"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_pickled_classifier_predicts_the_same_bits() -> None:
    x, y, _ = clouds()
    model = PARSClassifier(**QUICK).fit(x, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    assert_array_equal(again.predict(x), model.predict(x))


def test_a_clone_has_the_parameters_and_nothing_that_was_learned() -> None:
    x, y, _ = clouds()
    model = RobustClassifier("elr", method_params={"weight": 1.0}, unlabeled=-1, **QUICK).fit(x, y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "classes_")


def test_it_works_in_a_pipeline_a_grid_search_and_a_cross_validation() -> None:
    x, y, true = clouds(wrong=0.2)
    pipeline = make_pipeline(StandardScaler(), PARSClassifier(**QUICK))
    grid = GridSearchCV(pipeline, {"parsclassifier__lr": [1e-5, 0.1]}, cv=2).fit(x, y)
    assert grid.best_params_ == {"parsclassifier__lr": 0.1}
    assert (cross_val_predict(grid.best_estimator_, x, y, cv=3) == true).mean() > 0.9


def test_two_processes_find_what_one_finds() -> None:
    x, y, _ = clouds(60)
    one, two = (
        cross_val_predict(PARSClassifier(**QUICK), x, y, cv=2, n_jobs=jobs, method="predict_proba") for jobs in (1, 2)
    )
    assert_array_equal(one, two)


def test_the_same_seed_gives_the_same_bits_and_another_one_others() -> None:
    x, y, _ = clouds()

    def fitted(random_state: Any) -> Any:
        return PARSClassifier(epochs=4, random_state=random_state).fit(x, y).predict_proba(x)

    first = fitted(1)
    assert_array_equal(first, fitted(1))
    assert_array_equal(first, fitted(np.random.RandomState(1)))
    assert not np.array_equal(first, fitted(2))


def numpy_state() -> Any:
    state: Any = np.random.get_state()  # noqa: NPY002
    return np.append(state[1], state[2])


def test_it_leaves_the_random_states_and_threads_of_a_program_alone() -> None:
    import torch

    x, y, _ = clouds()
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    before = torch.random.get_rng_state(), numpy_state(), torch.get_num_threads()
    PARSClassifier(**QUICK).fit(x, y).predict(x)
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert_array_equal(before[1], numpy_state())
    assert before[2] == torch.get_num_threads()


@pytest.mark.parametrize("d", [1, 7, 300])
def test_a_row_is_answered_alike_alone_and_among_others_in_any_order(d: int) -> None:
    x, y, _ = clouds(700, d=d)
    model = PARSClassifier(epochs=1, holdout=0.0, random_state=0).fit(x, y)
    whole = model.predict_proba(x)
    order = np.random.default_rng(0).permutation(len(x))
    assert_array_equal(model.predict_proba(x[order]), whole[order])
    assert_array_equal(np.concatenate([model.predict_proba(x[i : i + 1]) for i in range(0, 700, 100)]), whole[::100])
