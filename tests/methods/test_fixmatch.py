"""FixMatch against its definition, and as the PARS it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from engine.helpers import Recorder, assert_identical, make_trainer, toy, weights
from numpy.testing import assert_allclose

from methods.reference import make_step, random_labels, random_logits, softmax
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.method_api import Setting
from pars.methods import PARS
from pars.methods.fixmatch import ENTRIES, FixMatch

CONFIG = TrainConfig(epochs=3, batch_size=16, lr=0.1, ema=0.9)


@pytest.mark.parametrize("tau", [0.0, 0.6, 1.0])
def test_a_step_is_cross_entropy_and_that_of_confident_pseudo_labels_over_the_whole_batch(tau: float) -> None:
    logits, labels = random_logits(6), random_labels(6)
    step = make_step(logits, labels)
    losses = FixMatch(tau=tau, lambda_u=0.5).step(step)
    values = {name: [softmax(row) for row in t.detach().double().numpy()] for name, t in logits.items()}
    supervised = [-math.log(p[y]) for p, y in zip(values["raw/weak"], labels.tolist(), strict=True)]
    pseudo = [
        -math.log(strong[weak.argmax()]) if weak.max() >= tau else 0.0
        for weak, strong in zip(values["more/weak"], values["more/strong"], strict=True)
    ]
    assert_allclose(losses["labeled"].item(), np.mean(supervised), rtol=1e-5)
    assert_allclose(losses["pseudo"].item(), 0.5 * np.sum(pseudo) / 9, rtol=1e-5)
    assert step.selections["pseudo"].selected.tolist() == [bool(p.max() >= tau) for p in values["more/weak"]]


def test_pseudo_labels_carry_no_gradient() -> None:
    logits, labels = random_logits(7), random_labels(7)
    torch.autograd.backward(FixMatch(tau=0.3).step(make_step(logits, labels))["pseudo"])
    weak, strong = logits["more/weak"].grad, logits["more/strong"].grad
    assert weak is None or not weak.any()
    assert strong is not None
    assert strong.any()


@pytest.mark.parametrize("tau", [0.45, 0.6])
def test_it_is_pars_without_negatives_balance_and_raw_selection(tau: float) -> None:
    as_pars = PARS(
        tau=tau,
        mu=2.0,
        lambda_N=0.0,
        lambda_R=0.0,
        robust="ce",
        raw_weight="one",
        trust="full",
        teacher="current",
        warm_up=0,
    )
    data, seen = toy(unlabeled=12), Recorder()
    ours = make_trainer(FixMatch(tau=tau, mu=2.0), data=data, config=CONFIG, callback=seen)
    theirs = make_trainer(as_pars, data=data, config=CONFIG)
    ours.run()
    theirs.run()
    assert_identical(weights(ours), weights(theirs))
    chosen = seen.lines[-1]["selection"]["pseudo"]
    assert 0 < chosen["selected"] < chosen["rows"]  # the threshold did choose


def test_published_settings() -> None:
    (entry,) = ENTRIES
    assert entry.recipe(Setting("cifar100")).build() == FixMatch(tau=0.95, lambda_u=1.0, mu=7.0)
    decay = [entry.recipe(Setting(name)).train["weight_decay"].value for name in ("cifar10", "cifar100")]
    assert decay == [5e-4, 1e-3]


@pytest.mark.parametrize("mu", [0.0, 1e9])
def test_a_batch_of_no_rows_or_of_far_too_many_is_refused(mu: float) -> None:
    with pytest.raises(UserError, match=r"method\.mu is .*, expected a number above 0 and at most 1000"):
        FixMatch(mu=mu)
