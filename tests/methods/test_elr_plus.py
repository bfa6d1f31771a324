"""ELR+ against its equations row by row, and without its regularizer against mixup."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from engine.helpers import SHORT, Recorder, assert_identical, make_trainer, toy, weights
from numpy.testing import assert_allclose
from torch import Tensor, nn

from methods.by_hand import random, random_classes
from methods.reference import Array, softmax
from pars.errors import UserError
from pars.losses import cross_entropy, reduce
from pars.method_api import Batch, Draw, Losses, Method, Network, Setting, Stage, Step, Task
from pars.methods import by_name, recipe
from pars.methods.elr_plus import ELRPlus
from pars.noise import NoiseConfig

ROWS = (torch.tensor([4, 0, 7, 2, 9]), torch.tensor([1, 3, 4, 8]))


class Times(nn.Module):
    """A network whose logits are its inputs times a weight."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


FACTORS, AVERAGED = (1.0, 0.7), (0.5, -0.8)  # of the weights in training, and of their averages


def step_of(old: dict[str, Tensor], *, progress: float = 0.25) -> Step:
    views = [random(index, len(rows), 4) for index, rows in enumerate(ROWS)]
    labels = [random_classes(index, len(rows), 4) for index, rows in enumerate(ROWS)]

    def batch(index: int) -> Batch:
        return Batch(ROWS[index], labels[index], lambda name, number: views[index])

    return Step(
        nets=tuple(Network(Times(raw), Times(mean)) for raw, mean in zip(FACTORS, AVERAGED, strict=True)),
        batches={"labeled": batch(0), "labeled_2": batch(1)},
        state={name: tensor.clone() for name, tensor in old.items()},
        rng=np.random.default_rng(3),
        epoch=0,
        progress=progress,
        stage_progress=progress,
    )


def old_targets() -> dict[str, Tensor]:
    generator = torch.manual_seed(0)
    return {name: torch.rand(12, 4, generator=generator) for name in ("targets_1", "targets_2")}


def expected(m: ELRPlus, step: Step, old: dict[str, Tensor], growth: float) -> tuple[dict[str, float], list[Array]]:
    """The losses, and the new targets of each network's rows, in float64."""
    rng, targets = np.random.default_rng(3), []
    losses: dict[str, float] = {}
    for a, name in enumerate(("labeled", "labeled_2")):
        batch = step.batches[name]
        x, y, n = batch.weak.double().numpy(), batch.labels.tolist(), len(batch)
        lam = float(rng.beta(m.alpha, m.alpha))
        lam, partner = max(lam, 1 - lam), rng.permutation(n)
        former = old[f"targets_{a + 1}"].double().numpy()
        t = [m.beta * former[r] + (1 - m.beta) * softmax(AVERAGED[1 - a] * x[i]) for i, r in enumerate(batch.rows)]
        ce, pulled = [], []
        for i in range(n):
            j = int(partner[i])
            p = softmax(FACTORS[a] * (lam * x[i] + (1 - lam) * x[j]))
            q = lam * t[i] + (1 - lam) * t[j]
            label = lam * np.eye(4)[y[i]] + (1 - lam) * np.eye(4)[y[j]]
            if m.weigh_labels:
                label = label * q / (label * q).sum()
            ce.append(-float(label @ np.log(p)))
            pulled.append(math.log(1 - float(q @ np.clip(p, m.floor, 1 - m.floor))))
        losses |= {f"ce_{a + 1}": float(np.mean(ce)), f"elr_{a + 1}": m.weight * growth * float(np.mean(pulled))}
        targets.append(np.array(t))
    return losses, targets


@pytest.mark.parametrize("weigh_labels", [False, True])
def test_a_step_is_mixup_and_the_regularizer_towards_the_other_s_averaged_weights(weigh_labels: bool) -> None:
    m, old = ELRPlus(beta=0.6, weight=2.0, alpha=0.8, floor=1e-3, weigh_labels=weigh_labels), old_targets()
    step = step_of(old)
    losses = m.step(step)
    right, targets = expected(m, step, old, growth=1.0)
    assert {name: loss.item() for name, loss in losses.items()} == pytest.approx(right, rel=1e-5)
    for index, rows in enumerate(ROWS):
        found = step.state[f"targets_{index + 1}"]
        assert_allclose(found[rows], targets[index], rtol=1e-5)
        others = [row for row in range(12) if row not in rows.tolist()]
        assert torch.equal(found[others], old[f"targets_{index + 1}"][others])
    assert [(net.forwards, net.backwards) for net in step.nets] == [(4, 5), (5, 4)]


def test_the_gradient_of_a_network_comes_from_its_own_losses_only() -> None:
    step = step_of(old_targets())
    losses = ELRPlus().step(step)
    weights_of = [next(iter(net.module.parameters())) for net in step.nets]
    for name, loss in losses.items():
        found = torch.autograd.grad(loss, weights_of, retain_graph=True, allow_unused=True)
        assert [gradient is not None for gradient in found] == [name.endswith("_1"), name.endswith("_2")]


@pytest.mark.parametrize(("progress", "growth"), [(0.0, math.exp(-5)), (0.2, math.exp(-5 / 4)), (0.4, 1.0), (0.9, 1.0)])
def test_the_regularizer_grows_over_the_ramp(progress: float, growth: float) -> None:
    m, old = ELRPlus(ramp=0.4), old_targets()
    step = step_of(old, progress=progress)
    losses = m.step(step)
    right, _ = expected(m, step, old, growth=growth)
    assert {name: loss.item() for name, loss in losses.items()} == pytest.approx(right, rel=1e-5)


@dataclass(frozen=True, kw_only=True)
class TwoMixups(Method):
    """Two networks, each with mixup on batches of its own; the larger weight on the first row of a pair."""

    networks: ClassVar[int] = 2

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return (Stage("train", task.epochs, self.step, {"labeled_2": Draw("labeled")}),)

    def step(self, step: Step) -> Losses:
        out = {}
        for net, name in zip(step.nets, ("labeled", "labeled_2"), strict=True):
            batch, weight = step.batches[name], float(step.rng.beta(1.0, 1.0))
            weight, partner = max(weight, 1 - weight), step.permutation(len(batch))
            x, e = batch.weak, torch.eye(3)[batch.labels]
            logits = net(weight * x + (1 - weight) * x[partner])
            out[name] = reduce.mean(cross_entropy(logits, weight * e + (1 - weight) * e[partner]))
        return out


def test_without_the_regularizer_it_is_mixup_on_two_networks() -> None:
    ours, plain = make_trainer(ELRPlus(weight=0.0)), make_trainer(TwoMixups())
    ours.run()
    plain.run()
    assert_identical(weights(ours), weights(plain))
    regularized = make_trainer(ELRPlus())
    regularized.run()
    assert not torch.equal(weights(regularized)["raw.1.head.weight"], weights(plain)["raw.1.head.weight"])


def test_the_two_networks_see_the_same_labels_in_batches_of_their_own() -> None:
    trainer = make_trainer(ELRPlus(), data=toy(unlabeled=9))
    orders = trainer.runner.layout.orders(trainer.runner.stage_of(0).stage.draws, trainer.state)
    first, second = (
        np.concatenate([orders[name].batch(0, step) for step in range(trainer.steps)])
        for name in ("labeled", "labeled_2")
    )
    assert sorted(first) == sorted(second) == list(range(51))
    assert list(first) != list(second)


def test_both_networks_have_targets_for_every_labeled_row() -> None:
    seen = Recorder()
    trainer = make_trainer(ELRPlus(), data=toy(unlabeled=9), config=SHORT, callback=seen)
    trainer.run()
    evidence = trainer.method.evidence(trainer.state)["targets"]
    assert_allclose(evidence[:51].sum(dim=1), 1 - 0.7**4, rtol=1e-5)  # four visits
    assert not evidence[51:].any()
    assert sorted(seen.lines[-1]["selection"]) == ["agrees_1", "agrees_2"]


def test_hyper_parameters_are_checked() -> None:
    wrong: dict[str, Any] = {"beta": 1.2, "alpha": 0.0, "floor": 0.5, "ramp": -0.1}
    for name, value in wrong.items():
        with pytest.raises(UserError, match=rf"method\.{name} is"):
            ELRPlus(**{name: value})


def test_published_settings() -> None:
    pair = NoiseConfig(kind="asymmetric", rate=0.4)
    assert by_name("elr+", Setting("cifar10")) == ELRPlus(reference_epochs=200)
    assert by_name("elr+", Setting("cifar10", pair)) == ELRPlus(beta=0.9, weight=1.0, reference_epochs=200)
    hundred = recipe("elr+", Setting("cifar100"))
    epochs = hundred.train["epochs"].value
    of_hundred = ELRPlus(beta=0.9, weight=7.0, reference_epochs=250, ramp=40_000 / (352 * 250), weigh_labels=True)
    assert hundred.build() == of_hundred
    assert (epochs, hundred.train["milestones"].value) == (250, (0.8,))
    assert recipe("elr+", Setting("cifar10")).train["ema"].value == 0.997
