"""Co-teaching against a loop over rows, and against two networks that learn alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine.helpers import Recorder, make_trainer, toy
from numpy.testing import assert_allclose

from methods.reference import random_labels
from methods.two_networks import (
    assert_each_is_trained_alone,
    cross_entropies,
    gradients,
    random_pair,
    smallest,
    two_network_step,
)
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.method_api import Setting
from pars.methods.co_teaching import CoTeaching, published
from pars.noise import NoiseConfig


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("forget_rate", [0.0, 0.3, 0.5, 0.99])
def test_each_network_learns_the_rows_that_the_other_one_chose(seed: int, forget_rate: float) -> None:
    logits, labels = random_pair(seed), random_labels(seed, rows=12)
    step = two_network_step(logits, labels, forget_rate=forget_rate)
    losses = CoTeaching().step(step)
    ce = [cross_entropies(each, labels) for each in logits]
    chosen = [smallest(each, max(1, int((1 - forget_rate) * 12))) for each in ce]
    assert_allclose(losses["ce_1"].item(), np.mean([ce[0][i] for i in chosen[1]]), rtol=1e-5)
    assert_allclose(losses["ce_2"].item(), np.mean([ce[1][i] for i in chosen[0]]), rtol=1e-5)
    for name, rows in zip(("small_loss_1", "small_loss_2"), chosen, strict=True):
        assert set(step.selections[name].selected.nonzero()[:, 0].tolist()) == rows


def test_the_mean_over_the_chosen_rows_is_divided_by_their_number_once() -> None:
    """dL/df = (p - e_y) / #chosen on chosen rows: under SGD a second division would be a smaller learning rate."""
    logits, labels = random_pair(5), random_labels(5, rows=12)
    step = two_network_step(logits, labels, forget_rate=0.5)
    found = gradients(step, CoTeaching().step(step))
    chosen = [smallest(cross_entropies(each, labels), 6) for each in logits]
    for own, other in ((0, 1), (1, 0)):
        expected = (logits[own].double().softmax(1) - torch.nn.functional.one_hot(labels, 4)) / 6
        expected[[i for i in range(12) if i not in chosen[other]]] = 0
        assert_allclose(found[own], expected, atol=1e-6)


def test_with_nothing_forgotten_two_networks_learn_as_if_alone() -> None:
    assert_each_is_trained_alone(make_trainer(CoTeaching(noise_rate=0.0)))


def test_with_something_forgotten_they_do_not() -> None:
    with pytest.raises(AssertionError):
        assert_each_is_trained_alone(make_trainer(CoTeaching(noise_rate=0.3)))


def test_the_rate_is_estimated_near_the_truth_on_rows_it_can_tell_apart() -> None:
    seen, data = Recorder(), toy(300, noise=0.45)  # of three classes: 0.3 are wrong
    config = TrainConfig(epochs=15, batch_size=32, lr=0.1)
    make_trainer(CoTeaching(), data=data, config=config, callback=seen).run()
    assert seen.lines[0]["notes"] == {"noise_rate": 0, "forget_rate": 0}
    assert data.train.true_labels is not None
    truth = float((data.train.labels != data.train.true_labels).mean())
    assert abs(seen.lines[-1]["notes"]["forget_rate"] - truth) < 0.08


@pytest.mark.parametrize("rate", [1.0, -0.1, float("nan")])
def test_a_rate_that_leaves_nothing_is_refused(rate: float) -> None:
    with pytest.raises(UserError, match=r"method\.noise_rate is .*, expected a fraction of wrong labels"):
        CoTeaching(noise_rate=rate)


def test_published_settings() -> None:
    half = NoiseConfig(kind="symmetric", rate=0.5, convention="exclusive")
    assert published(Setting("cifar10", half)).build() == CoTeaching(noise_rate=0.5, T_k=10)
    train = published(Setting("cifar100", half)).train
    assert (train["optimizer"].value, train["decay_from"].value, train["late_momentum"].value) == ("adam", 0.5, 0.1)
