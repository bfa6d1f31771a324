"""Co-teaching+ against a loop over the rows of disagreement."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine.helpers import assert_identical, make_trainer, weights
from numpy.testing import assert_allclose
from torch import Tensor

from methods.reference import random_labels
from methods.two_networks import cross_entropies, gradients, random_pair, smallest, two_network_step
from pars.method_api import Setting, Task
from pars.methods.co_teaching import CoTeaching
from pars.methods.co_teaching_plus import CoTeachingPlus, published
from pars.noise import NoiseConfig


def disagreement(logits: tuple[Tensor, Tensor]) -> list[int]:
    first, second = (each.tolist() for each in logits)
    return [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a.index(max(a)) != b.index(max(b))]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("forget_rate", [0.0, 0.3, 0.6])
def test_each_network_learns_the_rows_of_disagreement_that_the_other_one_chose(seed: int, forget_rate: float) -> None:
    logits, labels = random_pair(seed), random_labels(seed, rows=12)
    step = two_network_step(logits, labels, forget_rate=forget_rate)
    losses = CoTeachingPlus().step(step)
    ce, rows = [cross_entropies(each, labels) for each in logits], disagreement(logits)
    assert 3 < len(rows) < 12
    chosen = [smallest(each, int((1 - forget_rate) * len(rows) + 1e-9), rows) for each in ce]
    assert_allclose(losses["ce_1"].item(), np.mean([ce[0][i] for i in chosen[1]]), rtol=1e-5)
    assert_allclose(losses["ce_2"].item(), np.mean([ce[1][i] for i in chosen[0]]), rtol=1e-5)


def one_disagreement(row: int) -> tuple[Tensor, Tensor]:
    first = random_pair(1)[0]
    second = first.clone()
    second[row] = first[row].roll(1)
    return first, second


@pytest.mark.parametrize("row", [0, 5])
def test_a_single_row_of_disagreement_is_learned_whatever_is_forgotten_even_the_first(row: int) -> None:
    """It would be forgotten by ⌊0.4·1⌋ = 0, and the first row by whoever looks for positions that are not 0."""
    logits, labels = one_disagreement(row), random_labels(1, rows=12)
    step = two_network_step(logits, labels, forget_rate=0.6)
    losses = CoTeachingPlus().step(step)
    for name, each in zip(("ce_1", "ce_2"), logits, strict=True):
        assert_allclose(losses[name].item(), cross_entropies(each, labels)[row], rtol=1e-5)
    for own, found in zip(logits, gradients(step, losses), strict=True):
        expected = torch.zeros(12, 4, dtype=torch.float64)
        expected[row] = own[row].double().softmax(0)  # of logits: cross-entropy of probabilities would pull less
        expected[row, labels[row]] -= 1
        assert_allclose(found, expected, atol=1e-6)


def test_networks_that_agree_learn_nothing() -> None:
    first = random_pair(2)[0]
    step = two_network_step((first, first), random_labels(2, rows=12), forget_rate=0.3)
    losses = CoTeachingPlus().step(step)
    assert [loss.item() for loss in losses.values()] == [0, 0]
    assert all(float(gradient.abs().max()) == 0 for gradient in gradients(step, losses))


def test_without_its_second_stage_it_is_co_teaching() -> None:
    plus = make_trainer(CoTeachingPlus(noise_rate=0.3, warm_up_share=1.0))
    plain = make_trainer(CoTeaching(noise_rate=0.3))
    plus.run()
    plain.run()
    assert_identical(weights(plus), weights(plain))


def test_the_second_stage_goes_on_with_the_share_forgotten() -> None:
    trainer = make_trainer(CoTeachingPlus(noise_rate=0.3, warm_up=2, T_k=4))
    trainer.run()
    assert_allclose(float(trainer.state["forget_rate"]), 0.3)


def test_published_settings() -> None:
    pair = NoiseConfig(kind="pair", rate=0.45)
    assert published(Setting("cifar10", pair)).build() == CoTeachingPlus(noise_rate=0.45, T_k=10, warm_up=20)
    method = published(Setting("cifar100", pair)).build()
    stages = method.stages(Task(n_rows=1, n_classes=100, labels=torch.zeros(1).long(), epochs=200))
    assert [stage.epochs for stage in stages] == [5, 195]
