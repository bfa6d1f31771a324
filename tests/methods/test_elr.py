"""Early-learning regularization against its definition, row by row."""

from __future__ import annotations

import math

import numpy as np
import torch
from engine.helpers import assert_identical, make_trainer, toy, weights
from numpy.testing import assert_allclose

from methods.reference import make_step, random_labels, random_logits, softmax
from pars.engine import TrainConfig
from pars.method_api import Setting
from pars.methods import Supervised, by_name, recipe
from pars.methods.elr import ELR
from pars.noise import NoiseConfig


def test_a_step_is_cross_entropy_and_the_regularizer_towards_averaged_predictions() -> None:
    method, logits, labels = ELR(beta=0.6, weight=2.0, floor=0.1), random_logits(3), random_labels(3)
    rows = torch.tensor([4, 0, 7, 2, 9])
    old = torch.rand(12, 4, generator=torch.manual_seed(0))
    step = make_step(logits, labels, rows=rows, state={"targets": old.clone()})
    losses = method.step(step)
    ce, pulled = [], []
    for i, row in enumerate(rows.tolist()):
        exact = softmax(logits["raw/weak"][i].detach().double().numpy())
        p = np.clip(exact, 0.1, 0.9)
        t = 0.6 * old[row].double().numpy() + 0.4 * p / p.sum()
        assert_allclose(step.state["targets"][row], t, rtol=1e-5)
        ce.append(-math.log(exact[labels[i]]))
        pulled.append(math.log(1 - float(t @ p)))
    assert_allclose(losses["ce"].item(), np.mean(ce), rtol=1e-5)
    assert_allclose(losses["elr"].item(), 2 * np.mean(pulled), rtol=1e-5)
    others = [row for row in range(12) if row not in rows.tolist()]
    assert torch.equal(step.state["targets"][others], old[others])


def test_the_gradient_does_not_flow_into_the_targets() -> None:
    """λ/B · d log(1 - <t, p>)/df_k = -λ/B · p_k (t_k - <t, p>) / (1 - <t, p>), t being constant."""
    logits, labels = random_logits(5), random_labels(5)
    step = make_step(logits, labels, state={"targets": torch.rand(5, 4, generator=torch.manual_seed(1))})
    torch.autograd.backward(ELR(weight=3.0).step(step)["elr"])
    p = logits["raw/weak"].detach().double().softmax(1)
    t = step.state["targets"].double()
    dot = (t * p).sum(1, keepdim=True)
    expected = -3 / 5 * p * (t - dot) / (1 - dot)
    gradient = logits["raw/weak"].grad
    assert gradient is not None
    assert_allclose(gradient, expected, rtol=1e-3, atol=1e-6)


def test_without_the_regularizer_it_is_cross_entropy() -> None:
    config = TrainConfig(epochs=3, batch_size=16, lr=0.1, ema=0.9)
    ours, plain = (make_trainer(m, data=toy(), config=config) for m in (ELR(weight=0.0), Supervised(loss="ce")))
    ours.run()
    plain.run()
    assert_identical(weights(ours), weights(plain))


def test_published_settings() -> None:
    pair = NoiseConfig(kind="asymmetric", rate=0.4)
    assert by_name("elr", Setting("cifar10", pair)) == ELR(beta=0.9, weight=1.0, reference_epochs=120)
    assert by_name("elr", Setting("cifar100")) == ELR(beta=0.9, weight=7.0, reference_epochs=150)
    assert recipe("elr", Setting("cifar10")).train["epochs"].value == 150
