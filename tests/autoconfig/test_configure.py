"""The choice of a robust loss and a network by short trials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pars import RobustClassifier
from pars.autoconfig.configure import choose, configurations, loss_alone, trial
from pars.data import Dataset, Split
from pars.engine import Callback
from pars.run import RunConfig, TrainingData, load_training_data


def blobs(n_classes: int, rows: int = 1000) -> Dataset:
    rng = np.random.default_rng(0)
    labels = np.arange(rows) % n_classes
    x = 4 * rng.standard_normal((n_classes, 8))[labels] + rng.standard_normal((rows, 8))
    return Dataset("blobs", Split(x.astype(np.float32), labels), None, tuple(map(str, range(n_classes))))


def losses(dataset: Dataset, **params: Any) -> dict[str, RunConfig]:
    return configurations(RobustClassifier(**params).get_params(), dataset, 0)


def rows_of(dataset: Dataset) -> TrainingData:
    """As the runs of a fit with automatic settings are given them."""
    return load_training_data(losses(dataset)["gce(q=0.54)" if dataset.n_classes == 20 else "gce(q=0.7)"], dataset)


def test_a_loss_that_does_not_learn_the_classes_is_not_chosen() -> None:
    dataset = blobs(20)
    both = losses(dataset, epochs=5)
    config, trials = choose({"mae": both["nce+mae"], "ce": both["gce(q=0.54)"]}, rows_of(dataset))
    assert config == both["gce(q=0.54)"]
    assert trials["mae"] + 10 < trials["ce"]


def test_where_both_learn_the_first_is_chosen() -> None:
    dataset = blobs(3)
    configs = losses(dataset)
    config, trials = choose(configs, rows_of(dataset))
    assert list(trials) == ["nce+mae", "nce+mae, linear", "gce(q=0.7)"]
    assert min(trials.values()) > 90
    assert config == configs["nce+mae"]


def test_trials_show_that_they_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    dataset = blobs(3)
    RobustClassifier(epochs=5, verbose=1, random_state=0).fit(dataset.train.inputs, dataset.train.labels)
    shown = capsys.readouterr().err
    for title in ("trial of nce+mae: epoch 1", "trial of gce(q=0.7): epoch 1", "pars: epoch 5"):
        assert title in shown


def test_without_held_out_rows_nothing_is_tried_and_the_loss_that_always_learns_is_taken() -> None:
    dataset = blobs(3, rows=60)
    configs = losses(dataset)
    assert choose(configs, rows_of(dataset)) == (configs["gce(q=0.7)"], {})


@pytest.mark.parametrize(
    "params", [{"method_params": {"robust": "sce"}}, {"method": "ce"}, {"method": "elr"}], ids=["set", "ce", "elr"]
)
def test_nothing_is_tried_where_it_would_change_nothing(params: dict[str, object]) -> None:
    assert len(losses(blobs(3), network="mlp", **params)) == 1
    assert [config.model.name for config in losses(blobs(3), **params).values()] == ["mlp", "linear"]


def many_features() -> Dataset:
    """Twelve classes that a line separates, few rows of each and 200 features: a hidden layer memorizes them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 200)).astype(np.float32)
    labels = (x @ rng.normal(size=(200, 12))).argmax(axis=1)
    wrong = rng.random(2000) < 0.2
    return Dataset("line", Split(x, np.where(wrong, rng.integers(12, size=2000), labels)), None, tuple("abcdefghijkl"))


def test_a_linear_network_is_chosen_where_a_hidden_layer_memorizes() -> None:
    dataset = many_features()
    configs = losses(dataset)
    config, trials = choose(configs, load_training_data(configs["nce+mae"], dataset))
    assert config.model.name == "linear"
    assert config.train.weight_decay == 0.02
    assert trials["nce+mae"] < trials["nce+mae, linear"]


def test_a_weight_decay_that_the_user_set_stays() -> None:
    found = losses(blobs(3), train_params={"weight_decay": 0.1})
    assert {config.train.weight_decay for config in found.values()} == {0.1}


def test_a_trial_takes_a_quarter_of_the_epochs() -> None:
    dataset = blobs(3)
    config = losses(dataset)["nce+mae"]
    seen: list[int] = []

    class Count(Callback):
        def epoch(self, line: dict[str, Any]) -> None:
            seen.append(line["epoch"])

    trial(loss_alone(config), "nce+mae", rows_of(dataset), callback=Count())
    assert seen == list(range(1, round(0.25 * config.train.epochs) + 1))


def test_what_was_tried_can_be_read() -> None:
    dataset = blobs(3)
    model = RobustClassifier("warmup", epochs=5, random_state=0).fit(dataset.train.inputs, dataset.train.labels)
    assert set(model.trials_) == {"nce+mae", "nce+mae, linear", "gce(q=0.7)"}


def test_a_share_of_held_out_rows_that_rounds_to_none_is_none() -> None:
    dataset = blobs(2, rows=40)
    model = RobustClassifier(holdout=0.001, epochs=3, random_state=0).fit(dataset.train.inputs, dataset.train.labels)
    assert model.trials_ == {}
