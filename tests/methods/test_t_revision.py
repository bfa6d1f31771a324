"""T-revision against its equations, its gradient in ΔT, and without ΔT against reweighting."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from engine.helpers import SHORT, Recorder, assert_identical, make_trainer, toy, weights
from numpy.testing import assert_allclose
from torch import Tensor, nn

from methods.reference import AsIs, Averaged, make_step, random_labels, random_logits, softmax
from pars.errors import UserError
from pars.losses import cross_entropy, reduce
from pars.method_api import Epoch, Losses, Method, Network, Setting, Stage, State, Step, Task
from pars.methods import Supervised
from pars.methods.parts.transition import estimate_transition, estimation_step, initial_estimate
from pars.methods.t_revision import DELTA, ENTRIES, TRevision, importance

T4 = np.array([[0.7, 0.1, 0.2, 0.0], [0.0, 0.6, 0.1, 0.3], [0.25, 0.0, 0.75, 0.0], [0.1, 0.1, 0.1, 0.7]])
CHANGE = np.array([[0.1, 0, -0.1, 0], [0, 0, 0, 0], [0.05, 0, -0.05, 0], [0, 0.1, 0, -0.1]])


def step_of(seed: int, delta: Any = CHANGE) -> tuple[Step, Tensor, Tensor, Any]:
    logits, labels = random_logits(seed), random_labels(seed)
    layer: Any = nn.ModuleDict(dict(TRevision().attachments(7, 4)))
    layer[DELTA]["weight"].data.copy_(torch.tensor(delta))
    state = TRevision().initial_state(Task(5, 4, labels, 4)) | {"transition": torch.tensor(T4, dtype=torch.float32)}
    step = make_step(logits, labels, net=Network(AsIs(), Averaged(), layer), state=state)
    return step, logits["raw/weak"], labels, layer[DELTA]["weight"]


def expected(logits: Tensor, labels: Tensor, matrix: Any) -> tuple[list[float], list[float]]:
    """β and cross-entropy of each row in float64."""
    beta, ce = [], []
    for row, y in zip(logits.detach().double().numpy(), labels.tolist(), strict=True):
        p = softmax(row)
        beta.append(p[y] / sum(p[k] * matrix[k, y] for k in range(4)))
        ce.append(-math.log(p[y]))
    return beta, ce


def test_rows_are_weighted_by_how_likely_their_label_is_the_true_class() -> None:
    step, logits, labels, _ = step_of(1)
    loss = TRevision().reweight_step(step)["reweighted"]
    beta, ce = expected(logits, labels, T4)
    assert_allclose(loss.item(), np.mean(np.multiply(beta, ce)), rtol=1e-5)
    torch.autograd.backward(loss)
    p = logits.detach().double().softmax(1).numpy()
    constant = np.array(beta)[:, None] * (p - np.eye(4)[labels.numpy()]) / 5  # β has no gradient
    assert logits.grad is not None
    assert_allclose(logits.grad, constant, rtol=1e-4, atol=1e-7)


def test_in_the_last_stage_the_weights_are_those_of_the_revised_matrix() -> None:
    step, logits, labels, _ = step_of(2)
    loss = TRevision().revise_step(step)["revised"]
    beta, ce = expected(logits, labels, T4 + CHANGE)
    assert_allclose(loss.item(), np.mean(np.multiply(beta, ce)), rtol=1e-5)
    assert_allclose(step.state["revised"], T4 + CHANGE, rtol=1e-5, atol=1e-7)


def test_the_revision_learns_through_the_weights() -> None:
    """d/dΔT_ky of (1/B) β·CE = -(1/B) CE · p_y p_k / q_y², q_y = (T + ΔT)ᵀp at y; summed over the rows labeled y."""
    step, logits, labels, delta = step_of(3)
    torch.autograd.backward(TRevision().revise_step(step)["revised"])
    right = np.zeros((4, 4))
    for row, y in zip(logits.detach().double().numpy(), labels.tolist(), strict=True):
        p = softmax(row)
        q_y = sum(p[k] * (T4 + CHANGE)[k, y] for k in range(4))
        right[:, y] += math.log(p[y]) * p[y] * p / q_y**2 / 5
    assert delta.grad is not None
    assert_allclose(delta.grad, right, rtol=1e-4, atol=1e-7)
    assert logits.grad is not None
    assert logits.grad.any()


def test_a_matrix_revised_below_zero_leaves_finite_weights() -> None:
    step, logits, _, delta = step_of(4, delta=-5 * np.ones((4, 4)))
    loss = TRevision().revise_step(step)["revised"]
    torch.autograd.backward(loss)
    assert loss.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert not delta.grad.any()  # nowhere to go, as the clamp has it
    assert step.state["posterior"].isfinite().all()


def test_the_posterior_of_the_true_class_is_remembered() -> None:
    step, logits, labels, _ = step_of(5)
    TRevision().reweight_step(step)
    for i, y in enumerate(labels.tolist()):
        joint = softmax(logits[i].detach().double().numpy()) * np.maximum(T4[:, y], 1e-8)
        assert_allclose(step.state["posterior"][i], joint / joint.sum(), rtol=1e-4, atol=1e-7)


@dataclass(frozen=True, kw_only=True)
class Reweighting(Method):
    """Cross-entropy, T from its predictions, then importance reweighting, in two stretches; written once more."""

    def stages(self, task: Task) -> tuple[Stage, ...]:
        adam = {"optimizer": "adam", "lr": 1e-4, "momentum": 0.9, "nesterov": False, "schedule": "constant"}
        return (
            Stage("first", 2, lambda step: estimation_step(step, averaging=0.7), train={"schedule": "constant"}),
            Stage("second", 3, self.step, before_epoch=self.estimate, own_curve=True),
            Stage("third", 2, self.step, train=adam),
        )

    def initial_state(self, task: Task) -> State:
        return initial_estimate(task.n_rows, task.n_classes)

    def estimate(self, epoch: Epoch) -> None:
        if epoch.index == 0:
            estimate_transition(epoch, outliers=0.03)

    def step(self, step: Step) -> Losses:
        logits, y = step.net(step.batch.weak), step.batch.labels
        p, rows = logits.detach().softmax(dim=1), torch.arange(len(y))
        beta = p[rows, y] / (p * step.state["transition"].T[y]).sum(dim=1)
        return {"loss": reduce.mean(beta * cross_entropy(logits, y))}


def test_with_the_revision_frozen_it_is_reweighting() -> None:
    config = replace(SHORT, epochs=7)
    lengths = {"estimate": 2, "revise": 2}
    frozen: Any = make_trainer(TRevision(delta="frozen", **lengths), config=config)
    learned = make_trainer(TRevision(**lengths), config=config)  # type: ignore[arg-type]
    plain = make_trainer(Reweighting(), config=config)
    for trainer in (frozen, learned, plain):
        trainer.run()
    theirs = {name: t for name, t in weights(plain).items() if name.startswith(("raw.", "average."))}
    assert_identical({name: t for name, t in weights(frozen).items() if name in theirs}, theirs)
    assert not frozen.nets[0].attached[DELTA]["weight"].any()
    assert torch.equal(frozen.state["revised"], frozen.state["transition"])
    changed: Any = learned.nets[0].attached[DELTA]
    assert changed["weight"].any()
    assert not torch.equal(weights(learned)["raw.0.head.weight"], theirs["raw.0.head.weight"])


def test_labels_without_noise_weigh_alike() -> None:
    """β = 1 with T = I: cross-entropy, bit for bit."""
    logits, labels = random_logits(6)["raw/weak"].detach(), random_labels(6)
    assert torch.equal(importance(logits, labels, torch.eye(4)), torch.ones(5))


def test_the_first_stage_is_cross_entropy() -> None:
    ours, plain = make_trainer(TRevision(estimate=4)), make_trainer(Supervised(loss="ce"))
    constant = make_trainer(Supervised(loss="ce"), config=replace(SHORT, schedule="constant"))
    for trainer in (ours, plain, constant):
        trainer.run()
    for name, tensor in weights(constant).items():
        assert torch.equal(weights(ours)[name], tensor) or name.startswith("optimizer.")
    assert not torch.equal(weights(ours)["raw.0.head.weight"], weights(plain)["raw.0.head.weight"])


def test_where_two_classes_have_one_anchor_the_labels_are_taken_as_they_are() -> None:
    method, given = TRevision(outliers=0.0), torch.tensor([0, 1, 2])
    state = method.initial_state(Task(3, 3, given, 10))
    state["predictions"] = torch.tensor([[0.45, 0.45, 0.1], [0.4, 0.4, 0.2], [0.1, 0.2, 0.7]])

    def no_pass(*args: object, **options: object) -> Any:
        raise AssertionError("T is estimated from what is remembered")

    epoch = Epoch((), 0, 3, torch.arange(3), given, 3, state, np.random.default_rng(0), no_pass)
    method.estimate_once(epoch)
    assert torch.equal(state["transition"], torch.eye(3))
    assert epoch.notes["kept_last_split"] == 1


def test_with_many_rows_the_true_classes_are_found() -> None:
    seen, data = Recorder(), toy(360, spread=0.3)
    trainer = make_trainer(TRevision(), data=data, config=replace(SHORT, epochs=20, lr=0.05), callback=seen)
    trainer.run()
    assert [line["stage"] for line in seen.lines] == ["estimate"] * 4 + ["reweight"] * 10 + ["revise"] * 6
    evidence = trainer.method.evidence(trainer.state)
    assert data.train.true_labels is not None
    assert (evidence["posterior"].argmax(1).numpy() == data.train.true_labels).mean() > 0.94
    assert not torch.equal(evidence["transition"], evidence["revised"])


@pytest.mark.parametrize(("epochs", "lengths"), [(1, [1, 0, 0]), (2, [1, 1, 0]), (3, [1, 1, 1]), (60, [12, 30, 18])])
def test_stages_fill_runs_of_any_length(epochs: int, lengths: list[int]) -> None:
    stages = TRevision().stages(Task(5, 3, torch.zeros(5, dtype=torch.int64), epochs))
    assert [stage.epochs for stage in stages] == lengths


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"outliers": 1.0}, r"method\.outliers is 1\.0"),
        ({"estimate": 0}, r"method\.estimate is 0, expected 1 epoch or more"),
        ({"delta": "none"}, r"method\.delta is 'none'"),
        ({"estimate_momentum": 1.0}, r"method\.estimate_momentum is 1\.0"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        TRevision(**wrong)


def test_stages_that_leave_no_epoch_for_reweighting_are_refused() -> None:
    with pytest.raises(UserError, match="are 4 and 6 epochs of 10: reweighting, between them, needs at least one"):
        TRevision(estimate=4, revise=6).stages(Task(5, 3, torch.zeros(5, dtype=torch.int64), 10))


def test_published_settings() -> None:
    (entry,) = ENTRIES
    ten, hundred = (entry.recipe(Setting(name)) for name in ("cifar10", "cifar100"))
    lengths = {"estimate": 15, "revise": 200, "reference_epochs": 415}
    assert hundred.build() == TRevision(outliers=0.0, estimate_momentum=0.0, revise_lr=5e-7, **lengths)  # type: ignore[arg-type]
    stages = ten.build().stages(Task(1, 10, torch.tensor([0]), ten.train["epochs"].value))
    assert [stage.epochs for stage in stages] == [20, 200, 200]
    assert stages[0].train["momentum"] == 0.0
    assert ten.train["milestones"].value == (0.2, 0.4)
