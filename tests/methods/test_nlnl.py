"""NLNL against its equations, row by row, and its choice of rows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from engine.helpers import SHORT, Recorder, assert_identical, make_trainer, toy, weights
from numpy.testing import assert_allclose

from methods.reference import make_step, others, random_labels, random_logits, softmax
from pars.errors import UserError
from pars.method_api import Setting, State, Task
from pars.methods import Supervised
from pars.methods.nlnl import NLNL, published
from pars.methods.parts import prediction_history

WEIGHTS = torch.tensor([1.0, 3.0, 1.5, 2.0])


def state_of(rows: int, selected: list[bool]) -> State:
    return {"class_weights": WEIGHTS, "selected": torch.tensor(selected), **prediction_history.initial_history(rows, 4)}


@pytest.mark.parametrize("ln_neg", [1, 7, None])
def test_negative_learning_sums_over_draws_and_averages_over_selected_rows(ln_neg: int | None) -> None:
    logits, labels = random_logits(1), random_labels(1)
    selected = [True, False, True, True, False]
    step = make_step(logits, labels, seed=4, state=state_of(5, selected))
    losses = NLNL(ln_neg=ln_neg).negative_step(step)
    drawn = others(labels.tolist(), 4, ln_neg or 4, np.random.default_rng(4))  # 1.1 per class: 4.4
    total = 0.0
    for i in range(5):
        p = softmax(logits["raw/weak"][i].detach().double().numpy())
        if selected[i]:
            total -= float(WEIGHTS[labels[i]]) * sum(math.log(max(1 - p[c], 1e-5)) for c in drawn[i])
        assert_allclose(
            prediction_history.mean_prediction(step.state)[i], p, rtol=1e-3
        )  # unselected rows are remembered, too
    assert_allclose(losses["negative"].item(), total / 3, rtol=1e-5)


def test_the_gradient_of_negative_learning_pushes_one_class_down_and_the_rest_up() -> None:
    """-log(1 - p_c): p_c on logit c, -p_c p_k/(1 - p_c) on the others; times w_y, over B."""
    logits, labels = random_logits(2), random_labels(2)
    step = make_step(logits, labels, seed=5, state=state_of(5, [True] * 5))
    torch.autograd.backward(NLNL(ln_neg=1).negative_step(step)["negative"])
    p = logits["raw/weak"].detach().double().softmax(1)
    gradient = logits["raw/weak"].grad
    assert gradient is not None
    for i, (c,) in enumerate(others(labels.tolist(), 4, 1, np.random.default_rng(5))):
        expected = -p[i, c] * p[i] / (1 - p[i, c])
        expected[c] = p[i, c]
        assert_allclose(gradient[i], float(WEIGHTS[labels[i]]) / 5 * expected, rtol=1e-4, atol=1e-7)


def test_the_given_label_is_never_drawn() -> None:
    labels = random_labels(3, rows=64)
    sure = 15 * torch.eye(4)[labels]  # -log(1 - p_y) would be 11 here, and is 10⁻⁶ of other classes
    logits = random_logits(3, rows=64) | {"raw/weak": sure}
    step = make_step(logits, labels, state=state_of(64, [True] * 64))
    assert NLNL(ln_neg=50).negative_step(step)["negative"] < 1e-3


def test_all_labels_selected_and_weighed_alike_it_is_cross_entropy() -> None:
    m = NLNL(lengths=(0, 0, 1, 0, 0), gamma=0.0, class_weights=False)
    ours, plain = make_trainer(m), make_trainer(Supervised(loss="ce"))
    ours.run()
    plain.run()
    assert_identical(weights(ours), weights(plain))


@pytest.mark.parametrize("epochs", range(2, 30))
def test_stages_fill_runs_of_any_length(epochs: int) -> None:
    for lengths in ((720, 720, 720, 480, 480), (0, 0, 0, 1, 1), (1.0, 0.1, 2.0, 0.7, 0.3)):
        stages = NLNL(lengths=lengths).stages(Task(1, 2, torch.tensor([0]), epochs))
        assert sum(stage.epochs for stage in stages) == epochs
        assert min(stage.epochs for stage in stages) >= 0


def test_every_stage_trains_after_every_other() -> None:
    seen = Recorder()
    m, config = NLNL(lengths=(1, 1, 1, 1, 1)), replace(SHORT, epochs=5)
    trainer = make_trainer(m, data=toy(unlabeled=9), callback=seen, config=config)
    trainer.run()
    assert [line["stage"] for line in seen.lines] == ["NL", "SelNL", "SelPL", "selected", "soft labels"]
    assert trainer.state["history_writes"].tolist() == [1] * 51 + [0] * 9  # of the fourth stage alone
    assert_allclose(m.evidence(trainer.state)["history_mean"].sum(1), 1, rtol=1e-3)


def test_hyper_parameters_are_checked() -> None:
    with pytest.raises(UserError, match="expected five numbers"):
        NLNL(lengths=(1, 2))
    with pytest.raises(UserError, match="ln_neg is 0"):
        NLNL(ln_neg=0)


def test_published_settings() -> None:
    ten, hundred = published(Setting("cifar10")), published(Setting("cifar100"))
    assert ten.build() == NLNL(ln_neg=1, lr2=0.1, reference_epochs=3120)
    assert hundred.method["ln_neg"].value == 110
    stages = ten.build().stages(Task(1, 10, torch.tensor([0]), ten.train["epochs"].value))
    assert [stage.epochs for stage in stages] == [720, 720, 720, 480, 480]
    assert [stage.restart for stage in stages] == ["none", "none", "none", "all", "all"]
    assert [stage.train.get("lr") for stage in stages] == [None, None, None, 0.1, 0.1]
