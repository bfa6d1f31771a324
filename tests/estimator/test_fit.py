"""What a fit does: any method, any setting, and never worse than its own warm-up by held-out labels."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch import Tensor, nn

from estimator.data import QUICK, clouds
from pars import PARSClassifier, RobustClassifier
from pars.errors import UserError
from pars.estimator import EarlierCheckpointWarning
from pars.methods import PARS, REGISTRY, by_name
from pars.methods.elr import ELR

# Given labels are what a row is *not*: a main stage that unlearns what the warm-up learned.
SPOILT = {"raw_negative": "given", "lambda_N": 1e3, "tau": 1.0, "warm_up": 6}


@pytest.mark.parametrize("name", REGISTRY)
def test_every_method_can_be_fitted(name: str) -> None:
    x, y, _ = clouds(90)
    model = RobustClassifier(name, epochs=3, random_state=0).fit(x, y)
    proba = model.predict_proba(x)
    assert proba.shape == (90, 3)
    assert np.abs(proba.sum(axis=1) - 1).max() < 1e-5
    assert len(model.history_) == 3
    assert type(model.config_.method) is type(by_name(name))


def test_pars_is_what_its_classifier_trains_by() -> None:
    x, y, _ = clouds(60)
    assert isinstance(PARSClassifier(**QUICK).fit(x, y).config_.method, PARS)


def test_wrong_labels_are_not_learned() -> None:
    x, y, true = clouds(300, wrong=0.4, d=8)
    assert (y != true).mean() > 0.2
    assert PARSClassifier(random_state=0).fit(x, y).score(x, true) > 0.97


def test_a_main_stage_that_unlearns_is_undone_and_said() -> None:
    x, y, true = clouds(600)
    model = PARSClassifier(method_params=SPOILT, epochs=12, random_state=0)
    with pytest.warns(
        EarlierCheckpointWarning, match=r"selected the checkpoint of stage 'warm-up', epoch 6: .* the last stage"
    ):
        model.fit(x, y)
    assert model.selected_checkpoint_ == {"stage": "warm-up", "epoch": 6}
    assert model.score(x, true) > 0.95
    last = PARSClassifier(method_params=SPOILT, epochs=12, random_state=0, select="last").fit(x, y)
    assert last.selected_checkpoint_ == {"stage": "main", "epoch": 12}
    assert last.score(x, true) < 0.5


def test_labels_held_out_are_not_trained_on() -> None:
    x, y, _ = clouds(600)
    model = RobustClassifier("ce", epochs=2, random_state=0).fit(x, y)
    assert model.config_.data.holdout == pytest.approx(1 / 6)
    assert model.config_.train.select == "best-epoch"
    assert all("holdout" in line for line in model.history_)
    assert "holdout" not in RobustClassifier("ce", epochs=2, holdout=0.0, random_state=0).fit(x, y).history_[0]


def test_what_the_user_sets_is_used() -> None:
    x, y, _ = clouds(60)
    model = RobustClassifier(
        "elr",
        method_params={"weight": 2.0},
        network={"name": "mlp", "hidden": (5,)},
        epochs=3,
        batch_size=np.int64(20),  # type: ignore[arg-type]
        lr=0.2,
        train_params={"optimizer": "adam", "weight_decay": 0.0},
        views={"dropout_weak": 0.0},
        random_state=0,
    ).fit(x, y)
    train = model.config_.train
    assert (train.epochs, train.batch_size, train.lr, train.optimizer, train.weight_decay) == (3, 20, 0.2, "adam", 0.0)
    assert isinstance(model.config_.method, ELR)
    assert model.config_.method.weight == 2.0
    assert model.config_.views.dropout_weak == 0.0
    assert model.model_.networks[0].get_submodule("head").in_features == 5


def test_a_network_of_ones_own_is_trained() -> None:
    def build(shape: tuple[int, ...], n_classes: int) -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(shape[0], 7), nn.ReLU(), nn.Linear(7, n_classes))

    x, y, true = clouds()
    model = PARSClassifier(network=build, epochs=30, random_state=0).fit(x, y)
    assert isinstance(model.model_.networks[0], nn.Sequential)
    assert model.score(x, true) > 0.9


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"method": "elf"}, "unknown method 'elf'; did you mean 'selfie'\\? there are: pars"),
        ({"method_params": {"taw": 0.9}}, "unknown key 'method.taw'; did you mean 'tau'"),
        ({"method_params": {"tau": 7}}, "method.tau is 7"),
        ({"method_params": 3}, "method_params is 3, expected a dict"),
        ({"network": "mpl"}, "model.name is 'mpl'"),
        ({"network": 3}, "network is 3, expected"),
        ({"network": {"hiden": [3]}}, "unknown key 'model.hiden'"),
        ({"epochs": 0}, "train.epochs is 0"),
        ({"epochs": "many"}, "train.epochs is 'many', expected a whole number"),
        ({"batch_size": 2.5}, "train.batch_size is 2.5"),
        ({"lr": -1.0}, "train.lr is -1.0"),
        ({"train_params": {"epoch": 3}}, "unknown key 'train.epoch'; did you mean 'epochs'"),
        ({"views": "none"}, "views is 'none', expected a dict"),
        ({"views": {"dropout_weak": 2.0}}, "views.dropout_weak must be in"),
        ({"holdout": 1.5}, "data.holdout: 1.5"),
        ({"holdout": 0.0, "select": "best-stage"}, "train.select is 'best-stage', which needs"),
        ({"select": "best"}, "train.select is 'best', expected one of"),
        ({"device": "gpu"}, "device is 'gpu', expected one of"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_named_when_fitting_not_before(params: dict[str, Any], said: str) -> None:
    x, y, _ = clouds(30)
    model = RobustClassifier(**{"epochs": 2, "random_state": 0} | params)
    with pytest.raises(UserError, match=said):
        model.fit(x, y)


def test_a_second_fit_forgets_the_first() -> None:
    x, y, _ = clouds(60)
    model = PARSClassifier(**QUICK).fit(x, y)
    other = clouds(60, k=2, d=3, seed=5)
    model.fit(*other[:2])
    assert model.n_features_in_ == 3
    assert_array_equal(model.predict_proba(other[0]), PARSClassifier(**QUICK).fit(*other[:2]).predict_proba(other[0]))


class Stopped(nn.Module):
    """Presses Ctrl-C while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.calls = nn.Linear(4, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == 10:
            signal.raise_signal(signal.SIGINT)
        out: Tensor = self.head(x)
        return out


def test_ctrl_c_ends_a_fit() -> None:
    x, y, _ = clouds(60)
    with pytest.raises(KeyboardInterrupt):
        PARSClassifier(network=lambda shape, k: Stopped(), epochs=20, random_state=0).fit(x, y)


def test_progress_is_shown_to_whoever_asks(capsys: pytest.CaptureFixture[str]) -> None:
    x, y, _ = clouds(60)
    RobustClassifier("ce", verbose=1, **QUICK).fit(x, y)
    assert capsys.readouterr().err.count("ce: epoch") == 4
    RobustClassifier("ce", **QUICK).fit(x, y)
    assert capsys.readouterr() == ("", "")


def test_a_budget_decides_the_epochs_of_a_fit() -> None:
    x, y, _ = clouds(90)
    once = RobustClassifier("ce", epochs=1, random_state=0).fit(x, y).history_[0]["flop"]
    model = RobustClassifier("ce", train_params={"budget": 7.5 * once / 1e15}, random_state=0).fit(x, y)
    assert [line["flop"] for line in model.history_] == [n * once for n in range(1, 8)]


def test_a_network_instead_of_a_function_that_makes_one_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(UserError, match="network is a Linear, expected a function of a row's shape"):
        RobustClassifier(network=torch.nn.Linear(2, 2)).fit(rng.standard_normal((20, 2)), np.arange(20) % 2)
