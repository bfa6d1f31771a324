"""`method="auto"`: short trials of a few methods, chosen by held-out labels."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pars
from pars import RobustClassifier
from pars.autoconfig import DEFAULTS, choose_method, configurations, name_of
from pars.autoconfig.configure import preferred
from pars.autoconfig.methods import SHARE, TRIED
from pars.data import Dataset, Split
from pars.engine import Callback
from pars.errors import UserError
from pars.run import RunConfig, load_training_data

AUTO = {**DEFAULTS, "method": "auto"}


def blobs(rows: int = 1000, wrong: float = 0.4) -> Dataset:
    rng = np.random.default_rng(0)
    labels = np.arange(rows) % 3
    x = 2 * rng.standard_normal((3, 8))[labels] + rng.standard_normal((rows, 8))
    given = np.where(rng.random(rows) < wrong, rng.integers(3, size=rows), labels)
    return Dataset("blobs", Split(x.astype(np.float32), given, labels), None, tuple("abc"))


def first_of(dataset: Dataset) -> RunConfig:
    return configurations({**AUTO, "method": TRIED[0]}, dataset, 0)["nce+mae"]


def mask(right: list[int]) -> torch.Tensor:
    return torch.tensor(right, dtype=torch.bool)


def test_of_equals_the_first_is_preferred_and_a_clearly_better_one_to_all() -> None:
    few = mask([1] * 50 + [0] * 50)
    some = mask([1] * 51 + [0] * 49)  # one label more: no more than chance has in store
    many = mask([1] * 70 + [0] * 30)  # twenty more, none lost
    assert preferred({"a": few, "b": few}) == ("a", {"a": 50.0, "b": 50.0})
    assert preferred({"a": few, "b": some})[0] == "a"
    assert preferred({"a": few, "b": some, "c": many})[0] == "c"
    # Equally many, of other rows: neither is better.
    assert preferred({"a": few, "b": ~few})[0] == "a"


def test_every_method_is_tried_with_the_same_network_and_rows() -> None:
    dataset = blobs()
    first = first_of(dataset)
    titles: list[tuple[str, int]] = []

    class Titles(Callback):
        def start(self, total_steps: int, done_steps: int, title: str) -> None:
            self.title = title

        def epoch(self, line: dict[str, Any]) -> None:
            titles.append((self.title, line["epoch"]))

    training = load_training_data(first, dataset)
    config, agreement = choose_method(first, AUTO, dataset, 0, training, progress=Titles)
    assert list(agreement) == list(TRIED)
    lengths = dict(titles)
    assert lengths == {f"trial of {name}": round(SHARE * first.train.epochs) for name in TRIED}
    assert config.model == first.model
    assert config.train == first.train or name_of(config) != TRIED[0]
    # The best is not clearly better than the chosen one, and the first of those was taken.
    held = int(training.held_out.sum())
    best = max(agreement.values())
    assert held * (best - agreement[name_of(config)]) / 100 <= 1 + math.sqrt(held)
    if best == agreement[TRIED[0]]:
        assert config == first


def test_where_no_rows_are_held_out_the_first_is_taken_untried() -> None:
    dataset = blobs(rows=60)
    first = first_of(blobs())
    found = choose_method(first, AUTO, dataset, 0, load_training_data(first_of_few(dataset), dataset))
    assert found == (first, {})


def first_of_few(dataset: Dataset) -> RunConfig:
    return configurations({**AUTO, "method": TRIED[0]}, dataset, 0)["gce(q=0.7)"]


def test_the_estimator_says_what_was_tried_and_trains_one_of_them() -> None:
    dataset = blobs()
    x, given, true = dataset.train.inputs, dataset.train.labels, dataset.train.true_labels
    model = RobustClassifier("auto", epochs=8, random_state=0).fit(x, given)
    assert set(TRIED) < set(model.trials_)
    assert (model.predict(x) == true).mean() > 0.9
    assert len(model.audit()) == len(x)
    again = RobustClassifier("auto", epochs=8, random_state=0).fit(x, given)
    assert (again.predict_proba(x) == model.predict_proba(x)).all()


def test_settings_of_one_method_are_refused_where_none_is_named() -> None:
    dataset = blobs()
    with pytest.raises(UserError, match=r"method_params is .*name one"):
        RobustClassifier("auto", method_params={"tau": 0.9}).fit(dataset.train.inputs, dataset.train.labels)


def test_a_fit_in_a_folder_names_the_method_that_was_chosen(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.25, 1.25, size=(900, 2)).astype(np.float32)  # two classes that no line separates
    labels = ((x**2).sum(axis=1) < 1) ^ (rng.random(900) < 0.2)
    found = pars.fit(x, labels, method="auto", out=tmp_path / "fit", baseline=False)
    assert found.method in TRIED
    assert f"{found.method} was chosen, by the held-out rows that choose settings." in str(found)
    again = pars.fit(x, labels, method="auto", out=tmp_path / "fit", baseline=False)  # nothing is tried again
    assert again.summary() == found.summary()
