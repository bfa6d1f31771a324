"""Joint Optimization against its equations, and its labels against lists of what the network said."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from engine.helpers import SHORT, assert_identical, make_trainer, toy, weights
from numpy.testing import assert_allclose
from torch import Tensor, nn

from methods.reference import make_step, random_labels, random_logits, softmax
from pars.errors import UserError
from pars.losses import class_balance
from pars.method_api import Setting, Task
from pars.methods import Supervised
from pars.methods.joint_optim import JointOptim, published
from pars.methods.parts import prediction_history
from pars.noise import NoiseConfig


def task(epochs: int) -> Task:
    return Task(3, 3, torch.tensor([0, 1, -1]), epochs)


def test_step_1_learns_soft_labels_under_two_regularizers() -> None:
    m, logits, labels = JointOptim(alpha=1.5, beta=0.6), random_logits(1), random_labels(1)
    rows = torch.tensor([4, 0, 7, 2, 9])
    soft = torch.rand(12, 4, generator=torch.manual_seed(0)).softmax(1)
    step = make_step(
        logits, labels, rows=rows, state={"soft_labels": soft, **prediction_history.initial_history(12, 4)}
    )
    losses = m.joint_step(step)
    p = np.array([softmax(row) for row in logits["raw/weak"].detach().double().numpy()])
    s = soft[rows].double().numpy()
    h = p.mean(axis=0)
    assert_allclose(losses["ce"].item(), -(s * np.log(p)).sum() / 5, rtol=1e-5)
    assert_allclose(losses["entropy"].item(), -0.6 * (p * np.log(p)).sum() / 5, rtol=1e-5)
    # The public code minimizes -Σ π_k log h_k, the paper Σ π_k log(π_k/h_k): they differ by the constant log K.
    assert_allclose(losses["balance"].item() + 1.5 * math.log(4), -1.5 * np.log(h).mean(), rtol=1e-5)
    assert_allclose(prediction_history.mean_prediction(step.state, rows), p, rtol=1e-3)


def test_the_balance_of_the_public_code_has_the_gradient_of_class_balance() -> None:
    h = torch.tensor([0.1, 0.6, 0.3], requires_grad=True)
    (ours,) = torch.autograd.grad(class_balance(h), h)
    assert_allclose(ours, [-1 / (3 * 0.1), -1 / (3 * 0.6), -1 / (3 * 0.3)], rtol=1e-5)


def test_step_2_learns_the_soft_labels_alone() -> None:
    logits, labels = random_logits(2), random_labels(2)
    soft = torch.rand(5, 4, generator=torch.manual_seed(0)).softmax(1)
    step = make_step(logits, labels, state={"soft_labels": soft})
    losses = JointOptim().retraining_step(step)
    expected = -(soft.double() * logits["raw/weak"].detach().double().log_softmax(1)).sum(1).mean()
    assert list(losses) == ["ce"]
    assert_allclose(losses["ce"].item(), expected, rtol=1e-5)


def test_without_regularizers_and_new_labels_it_is_cross_entropy() -> None:
    m = JointOptim(alpha=0.0, beta=0.0, step1=4, update_from=4)
    ours, plain = make_trainer(m), make_trainer(Supervised(loss="ce"))
    ours.run()
    plain.run()
    assert_identical(weights(ours), weights(plain))


@pytest.mark.parametrize(("step1", "update_from", "epochs"), [(14, 3, 14), (12, 3, 13), (3, 1, 3), (1, 0, 2)])
def test_labels_become_the_mean_of_the_last_ten_outputs_of_training(step1: int, update_from: int, epochs: int) -> None:
    """Replaced before each epoch, from one after `update_from` on; and once more before step 2."""
    data = toy(unlabeled=5)
    config = replace(SHORT, epochs=epochs, batch_size=30, evaluate_every=epochs)
    trainer = make_trainer(JointOptim(step1=step1, update_from=update_from), data=data, config=config, dropout=0.3)
    said: list[list[Tensor]] = [[] for _ in range(60)]

    def listen(module: nn.Module, inputs: Any, output: Tensor) -> None:
        if module.training and trainer.epoch < min(step1, epochs - 1):  # what the last epoch says comes too late
            stage = trainer.runner.stage_of(trainer.epoch).stage
            order = trainer.runner.layout.orders(stage.draws, trainer.state)["labeled"]
            rows = order.batch(trainer.epoch, trainer.step)
            for row, logits in zip(rows, output.detach(), strict=True):
                said[row].append(logits.double().softmax(0))

    trainer.nets[0].module.register_forward_hook(listen)
    trainer.run()
    for row in range(55):
        expected = torch.stack(said[row][-10:]).mean(0)
        assert_allclose(trainer.state["soft_labels"][row], expected, rtol=1e-3)
    assert_allclose(trainer.state["soft_labels"][55:], 1 / 3)  # unlabeled


def test_labels_are_the_given_ones_until_they_are_replaced() -> None:
    data = toy()
    trainer = make_trainer(JointOptim(step1=4, update_from=3), data=data)
    trainer.run()
    assert torch.equal(trainer.state["soft_labels"], torch.eye(3)[torch.from_numpy(data.train.labels)])


def test_step_2_is_a_fresh_network_with_a_rate_of_its_own() -> None:
    first, second = JointOptim(lr2=0.2).stages(task(16))
    assert (first.epochs, first.restart, dict(first.train)) == (10, "none", {})
    assert (second.epochs, second.restart, second.train["lr"]) == (6, "all", 0.2)
    assert second.train["milestones"] == (1 / 3, 2 / 3)
    assert "lr" not in JointOptim().stages(task(16))[1].train


def test_hyper_parameters_are_checked() -> None:
    for wrong in ({"alpha": -1.0}, {"step1_share": 1.5}, {"lr2": 0.0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            JointOptim(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="step1 is 200 epochs"):
        JointOptim(step1=200).stages(task(16))


def test_published_settings() -> None:
    seventy = published(Setting("cifar10", NoiseConfig(kind="symmetric", rate=0.7)))
    lengths = {"step1": 200, "update_from": 70, "reference_epochs": 320}
    assert seventy.build() == JointOptim(alpha=1.2, beta=0.8, lr2=0.2, **lengths)
    assert (seventy.train["lr"].value, seventy.train["lr"].source) == (0.08, "readme")
    pair = published(Setting("cifar10", NoiseConfig(kind="asymmetric", rate=0.4)))
    assert (pair.train["lr"].value, pair.method["alpha"].value, pair.method["beta"].value) == (0.03, 0.8, 0.4)
    assert published(Setting("cifar100")).train["lr"].source == "ours"
