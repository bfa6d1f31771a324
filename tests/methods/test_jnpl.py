"""JNPL against its equations, the gradients that its paper states, and its choice of rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from engine.helpers import SHORT, Recorder, assert_identical, make_trainer, toy, weights
from numpy.testing import assert_allclose

from methods.by_hand import random, random_classes
from methods.reference import make_step, others, random_labels, random_logits, softmax
from pars.errors import UserError
from pars.losses import mae
from pars.method_api import Losses, Method, Setting, Stage, Step, Task
from pars.methods.jnpl import JNPL, negative_plus, positive_plus, published, seems_clean
from pars.methods.parts import prediction_history, selected_labels


@pytest.mark.parametrize("require_given", [False, True])
def test_a_step_is_nl_plus_on_all_rows_and_pl_plus_on_those_that_seem_clean(require_given: bool) -> None:
    m = JNPL(weight=0.3, N=2, ln_neg=3, require_given=require_given)
    logits, labels = random_logits(1, rows=40), random_labels(1, rows=40)
    state = m.initial_state(Task(40, 4, labels, 10))
    step = make_step(logits, labels, seed=4, state=state)
    losses = m.joint_step(step)
    rng = np.random.default_rng(4)
    drawn, coin = others(labels.tolist(), 4, 3, rng), rng.random(40)
    negative, positive, chosen = [], [], []
    for i, y in enumerate(labels.tolist()):
        p = softmax(logits["raw/weak"][i].detach().double().numpy())
        negative.append(sum(-(1 - p[c]) * math.log(max(1 - p[c], 1e-5)) for c in drawn[i]))
        top = int(p.argmax())
        clean = all(p[k] < 1 / 4 for k in range(4) if k != top) and coin[i] < p[top]
        chosen.append(clean and (top == y or not require_given))
        if chosen[-1]:
            positive.append(-(1 + p[top]) * (1 + p[top] ** 2) * (1 + p[top] ** 4) * math.log(p[top]))
    assert 0 < sum(chosen) < 40
    assert_allclose(losses["negative"].item(), np.mean(negative), rtol=1e-5)
    assert_allclose(losses["positive"].item(), 0.3 * np.sum(positive) / 40, rtol=1e-5)
    assert step.selections["positive"].selected.tolist() == chosen
    assert_allclose(prediction_history.mean_prediction(state), logits["raw/weak"].detach().softmax(1), atol=1e-3)


def test_the_gradient_of_nl_plus_is_the_published_one() -> None:
    """p_c (1 - p_c) at the drawn class, -p_c p_i at the others."""
    logits, c = random(2, 6, 5).requires_grad_(), random_classes(2, 6, 5)
    torch.autograd.backward(negative_plus(logits, torch.eye(5)[c]).sum())
    p = logits.detach().double().softmax(1).numpy()
    assert logits.grad is not None
    for i, k in enumerate(c.tolist()):
        expected = -p[i, k] * p[i]
        expected[k] = p[i, k] * (1 - p[i, k])
        assert_allclose(logits.grad[i], expected, rtol=1e-4, atol=1e-7)


def test_over_all_draws_nl_plus_is_mean_absolute_error() -> None:
    logits, labels = random(4, 6, 5).requires_grad_(), random_classes(4, 6, 5)
    (ours,) = torch.autograd.grad(negative_plus(logits, 1 - torch.eye(5)[labels]).sum(), logits)
    (of_mae,) = torch.autograd.grad(mae(logits, labels).sum(), logits)
    assert_allclose(ours, of_mae, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("N", "power"), [(0, 2), (3, 16)])
def test_the_gradient_of_pl_plus_at_the_target_is_one_minus_a_power_of_p(N: int, power: int) -> None:
    logits, target = random(3, 6, 5).requires_grad_(), random_classes(3, 6, 5)
    torch.autograd.backward(positive_plus(logits, target, N=N).sum())
    p = logits.detach().double().softmax(1)[torch.arange(6), target]
    assert logits.grad is not None
    assert_allclose(logits.grad[torch.arange(6), target], -(1 - p**power), rtol=1e-4)


def test_an_undecided_row_does_not_seem_clean() -> None:
    assert not seems_clean(torch.zeros(3, 4), torch.zeros(3)).any()


def test_without_clean_rows_only_negative_learning_is_left() -> None:
    labels = torch.tensor([0, 1, 2])
    step = make_step({"raw/weak": torch.zeros(3, 4), "more/weak": torch.zeros(0, 4)}, labels, state={})
    step.state.update(JNPL().initial_state(Task(3, 4, labels, 4)))
    assert JNPL().joint_step(step)["positive"].item() == 0


@pytest.mark.parametrize(("progress", "plain"), [(0.49, True), (0.5, False)])
def test_a_short_run_begins_with_the_negative_learning_of_nlnl(progress: float, plain: bool) -> None:
    """Whose gradient does not vanish where a wrong class is sure."""
    labels = torch.zeros(6, dtype=torch.long)
    sure = torch.tensor([[-4.0, 4.0, -4.0]]).repeat(6, 1).requires_grad_()  # of class 1; labels are class 0
    logits = {"raw/weak": sure, "more/weak": torch.zeros(0, 3)}
    m = JNPL(nl_share=0.5, weight=0.0, ln_neg=10)
    step = make_step(logits, labels, state=m.initial_state(Task(6, 3, labels, 4)), stage_progress=progress)
    torch.autograd.backward(m.joint_step(step)["negative"])
    assert sure.grad is not None
    pull = sure.grad[:, 1].sum().item() / 10  # per draw, about half of which are class 1: mean of p (1 - p) or of p
    assert 0.2 < pull < 0.8 if plain else pull < 0.01


class NegativeOnly(Method):
    """NL+ with one draw a row, written once more."""

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return (Stage("train", task.epochs, self.step),)

    def step(self, step: Step) -> Losses:
        p = step.net(step.batch.weak).softmax(dim=1)
        shift = 1 + step.uniform_integers(2, (len(step.batch), 1))[:, 0]
        rest = 1 - p[torch.arange(len(p)), (step.batch.labels + shift) % 3]
        return {"negative": -(rest.detach() * rest.log()).mean()}


def test_without_pl_plus_and_finish_it_is_nl_plus() -> None:
    ours, plain = make_trainer(JNPL(weight=0.0, ln_neg=1, lengths=(1, 0, 0))), make_trainer(NegativeOnly())
    ours.run()
    plain.run()
    other = weights(plain)
    for name, tensor in weights(ours).items():
        assert_allclose(tensor, other[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_it_ends_as_nlnl_does() -> None:
    seen = Recorder()
    m, config = JNPL(lengths=(2, 1, 1)), replace(SHORT, epochs=4)
    trainer = make_trainer(m, data=toy(unlabeled=9), callback=seen, config=config)
    trainer.run()
    assert [line["stage"] for line in seen.lines] == ["joint", "joint", "selected", "soft labels"]
    assert trainer.state["history_writes"].tolist() == [1] * 51 + [0] * 9  # of the third stage alone
    assert_allclose(m.evidence(trainer.state)["history_mean"].sum(1), 1, rtol=1e-3)


def test_every_row_counts_alike_and_every_label_is_selected_at_first() -> None:
    task = Task(5, 4, torch.tensor([0, 0, 0, 1, -1]), 4)
    assert_identical(JNPL().initial_state(task), selected_labels.initial_selection(task, weigh_classes=False))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lengths": (1.0, 2.0)}, "expected three numbers"),
        ({"ln_neg": 0}, r"ln_neg is 0"),
        ({"N": -1}, r"method\.N is -1, expected a number from 0 to 10"),
        ({"lr2": 0.0}, r"lr2 is 0\.0"),
    ],
)
def test_hyper_parameters_are_checked(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        JNPL(**wrong)


def test_published_settings() -> None:
    ten, hundred = published(Setting("cifar10")), published(Setting("cifar100"))
    found = [JNPL(ln_neg=draws, lr2=0.1, reference_epochs=1960) for draws in (1, 110)]
    assert [ten.build(), hundred.build()] == found
    stages = ten.build().stages(Task(1, 10, torch.tensor([0]), ten.train["epochs"].value))
    assert [(stage.name, stage.epochs) for stage in stages] == [
        ("joint", 1000),
        ("selected", 480),
        ("soft labels", 480),
    ]
    assert stages[0].own_curve or stages[0].train  # its learning rate drops after 800 of 1000 epochs
    assert ten.train["milestones"].value == (0.8,)
