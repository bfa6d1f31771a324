"""MentorNet's predefined curriculum against a loop over rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from engine.helpers import assert_identical, make_trainer, weights
from numpy.testing import assert_allclose

from methods.by_hand import random, random_classes, step_of
from methods.two_networks import cross_entropies
from pars.method_api import Setting, Step
from pars.methods import Supervised
from pars.methods.mentornet import MentorNetPD, published

EVERY_ROW = MentorNetPD(burn_in=0.0, early_dropout=0.0, dropout=0.0)


def one_step(progress: float, *, before: float = 0.7, seed: int = 0, rows: int = 40) -> tuple[Step, list[float]]:
    logits, labels = random(seed, rows, 4), random_classes(seed, rows, 4)
    batch = (torch.arange(rows), labels, {"weak/0": logits.requires_grad_()})
    step = step_of({"labeled": batch}, {"percentile_loss": torch.tensor(before)}, seed=seed, progress=progress)
    return step, cross_entropies(logits.detach(), labels)


@pytest.mark.parametrize("p", [0.75, 0.5, 0.0, 1.0])
def test_rows_with_losses_up_to_the_running_percentile_are_learned(p: float) -> None:
    step, ce = one_step(0.5)
    loss = replace(EVERY_ROW, percentile=p).step(step)["ce"]
    threshold = 0.5 * 0.7 + 0.5 * float(np.percentile(ce, 100 * p))
    assert_allclose(step.state["percentile_loss"].item(), threshold, rtol=1e-5)
    assert_allclose(loss.item(), sum(value for value in ce if value <= threshold) / 40, rtol=1e-5)


def test_in_the_burn_in_every_loss_counts_while_the_percentile_is_already_followed() -> None:
    step, ce = one_step(0.1)
    loss = MentorNetPD(burn_in=0.2, early_dropout=0.0).step(step)["ce"]
    assert_allclose(loss.item(), np.mean(ce), rtol=1e-5)
    assert_allclose(step.state["percentile_loss"].item(), 0.35 + 0.5 * np.percentile(ce, 75), rtol=1e-5)


@pytest.mark.parametrize(("progress", "rows"), [(0.1, 20), (0.17, 38), (0.9, 38)])
def test_a_random_share_of_rows_is_left_out_and_counts_in_the_mean(progress: float, rows: int) -> None:
    learned = []
    for seed in (0, 1):
        step, ce = one_step(progress, seed=seed)
        loss = MentorNetPD(burn_in=1.0).step(step)["ce"]
        torch.autograd.backward(loss)
        gradient = step.batch.weak.grad
        assert gradient is not None
        learned.append(set(gradient.abs().amax(dim=1).nonzero()[:, 0].tolist()))
        assert len(learned[-1]) == rows
        assert_allclose(loss.item(), sum(ce[i] for i in learned[-1]) / 40, rtol=1e-5)
    assert learned[0] != learned[1]


def test_with_every_row_and_every_loss_it_is_cross_entropy() -> None:
    ours = make_trainer(replace(EVERY_ROW, burn_in=1.0))
    plain = make_trainer(Supervised(loss="ce"))
    ours.run()
    plain.run()
    assert_identical(weights(ours), weights(plain))


def test_published_settings() -> None:
    recipe = published(Setting("cifar10"))
    assert recipe.build() == MentorNetPD(percentile=0.75)
    assert_allclose(recipe.train["milestones"].value, (0.501, 0.641, 0.769), atol=1e-3)
