"""Bootstrapping against its definition, row by row."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import torch
from engine.helpers import assert_identical, make_trainer, toy, weights
from numpy.testing import assert_allclose

from methods.reference import make_step, random_labels, random_logits, softmax
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.method_api import Setting
from pars.methods import Supervised
from pars.methods.bootstrap import ENTRIES, Bootstrap

CONFIG = TrainConfig(epochs=3, batch_size=16, lr=0.1, ema=0.9)


@pytest.mark.parametrize("target", ["soft", "hard"])
def test_a_step_is_cross_entropy_with_label_and_belief_mixed(target: Literal["soft", "hard"]) -> None:
    logits, labels = random_logits(2), random_labels(2)
    losses = Bootstrap(target=target, beta=0.7).step(make_step(logits, labels))
    expected = []
    for row, y in zip(logits["raw/weak"].detach().double().numpy(), labels.tolist(), strict=True):
        p = softmax(row)
        q = p if target == "soft" else [float(k == p.argmax()) for k in range(4)]
        expected.append(-sum((0.7 * (k == y) + 0.3 * q[k]) * math.log(p[k]) for k in range(4)))
    assert_allclose(losses["bootstrap"].item(), np.mean(expected), rtol=1e-5)


@pytest.mark.parametrize("detach", [False, True])
def test_the_soft_belief_has_a_gradient_of_its_own_unless_it_is_detached(detach: bool) -> None:
    """Detached: p - t. Else with the gradient of (1-β)·H(p) instead of that of (1-β)·CE(p, sg p), which is 0."""
    logits, labels = random_logits(4), random_labels(4)
    torch.autograd.backward(Bootstrap(beta=0.6, detach_target=detach).step(make_step(logits, labels))["bootstrap"])
    p = logits["raw/weak"].detach().double().softmax(1)
    pull = 0.6 * (p - torch.eye(4, dtype=torch.float64)[labels])
    entropy = -(p * p.log()).sum(1, keepdim=True)
    expected = pull if detach else pull - 0.4 * p * (p.log() + entropy)
    assert logits["raw/weak"].grad is not None
    assert_allclose(logits["raw/weak"].grad, expected / 5, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "method",
    [Bootstrap(beta=1.0), Bootstrap(beta=1.0, target="hard"), Bootstrap(beta=0.1, warm_up=3)],
    ids=["soft", "hard", "not begun"],
)
def test_without_a_share_of_its_own_belief_it_is_cross_entropy(method: Bootstrap) -> None:
    ours, plain = (make_trainer(m, data=toy(), config=CONFIG) for m in (method, Supervised(loss="ce")))
    ours.run()
    plain.run()
    assert_identical(weights(ours), weights(plain))


def test_published_settings() -> None:
    soft, hard = ENTRIES
    assert soft.recipe(Setting("cifar10")).build() == Bootstrap(target="soft", beta=0.95)
    assert hard.recipe(Setting("cifar100")).build() == Bootstrap(target="hard", beta=0.8)
    assert hard.recipe(Setting()).build() == Bootstrap(target="hard", beta=0.6)


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(UserError, match=r"method\.beta is 1\.5, expected a number from 0 to 1"):
        Bootstrap(beta=1.5)
