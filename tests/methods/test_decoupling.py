"""Decoupling against a loop over the rows of disagreement."""

from __future__ import annotations

import numpy as np
import pytest
from engine.helpers import make_trainer
from numpy.testing import assert_allclose

from methods.reference import random_labels
from methods.two_networks import (
    assert_each_is_trained_alone,
    cross_entropies,
    gradients,
    random_pair,
    two_network_step,
)
from pars.method_api import Setting
from pars.methods.decoupling import Decoupling, published


@pytest.mark.parametrize("seed", range(4))
def test_both_networks_learn_the_rows_of_disagreement_and_only_those(seed: int) -> None:
    logits, labels = random_pair(seed), random_labels(seed, rows=12)
    step = two_network_step(logits, labels)
    losses = Decoupling().step(step)
    rows = [i for i in range(12) if int(logits[0][i].argmax()) != int(logits[1][i].argmax())]
    assert 1 < len(rows) < 12
    for name, own in zip(("ce_1", "ce_2"), logits, strict=True):
        ce = cross_entropies(own, labels)
        assert_allclose(losses[name].item(), np.mean([ce[i] for i in rows]), rtol=1e-5)
    for found in gradients(step, losses):
        assert set(found.abs().amax(dim=1).nonzero()[:, 0].tolist()) == set(rows)


@pytest.mark.parametrize("row", [0, 11])
def test_few_rows_are_divided_by_a_tenth_of_the_batch(row: int) -> None:
    """One row of disagreement in a batch of 30: 1 / max(0.1·30, 1), the first row counting as any other."""
    first, labels = random_pair(3, rows=30)[0], random_labels(3, rows=30)
    second = first.clone()
    second[row] = first[row].roll(1)
    losses = Decoupling(min_share=0.1).step(two_network_step((first, second), labels))
    assert_allclose(losses["ce_1"].item(), cross_entropies(first, labels)[row] / 3, rtol=1e-5)
    assert_allclose(losses["ce_2"].item(), cross_entropies(second, labels)[row] / 3, rtol=1e-5)


def test_networks_that_agree_learn_nothing() -> None:
    first = random_pair(2)[0]
    step = two_network_step((first, first), random_labels(2, rows=12))
    losses = Decoupling(min_share=0.0).step(step)
    assert [loss.item() for loss in losses.values()] == [0, 0]
    assert all(float(gradient.abs().max()) == 0 for gradient in gradients(step, losses))


def test_in_the_warm_up_two_networks_learn_as_if_alone() -> None:
    assert_each_is_trained_alone(make_trainer(Decoupling(warm_up_share=1.0)))


def test_published_settings() -> None:
    recipe = published(Setting("cifar10"))
    assert recipe.build() == Decoupling()
    assert {cited.source for cited in recipe.train.values()} == {"third-party"}
