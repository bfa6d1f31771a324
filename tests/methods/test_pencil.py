"""PENCIL against its equations in float64, and the descent of its labels against the closed form."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from engine.helpers import SHORT, assert_identical, make_trainer, toy, weights
from numpy.testing import assert_allclose
from torch import Tensor

from methods.reference import make_step, random_labels, random_logits
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.method_api import Setting, Task
from pars.methods import Supervised
from pars.methods.pencil import PENCIL, published
from pars.noise import NoiseConfig

ROWS = torch.tensor([4, 0, 7, 2, 9])


def task(epochs: int, labels: Tensor | None = None) -> Task:
    labels = torch.tensor([0, 1, -1]) if labels is None else labels
    return Task(len(labels), 3, labels, epochs)


def expected(m: PENCIL, logits: Tensor, label_logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """The three losses as the paper names them: per row, per class, summed by hand."""
    p, y_hat = logits.softmax(1), label_logits.softmax(1)
    n, k = p.shape
    scale = 1 / (n * k) if m.scaling == "entries" else 1 / n
    kl = sum(p[i, c] * (p[i, c] / y_hat[i, c]).log() for i in range(n) for c in range(k))
    entropy = -sum(p[i, c] * p[i, c].log() for i in range(n) for c in range(k))
    twice = (y_hat.exp() / y_hat.exp().sum(1, keepdim=True)) if m.compatibility == "double-softmax" else y_hat
    compatibility = -sum(twice[i, labels[i]].log() for i in range(n)) / n
    return {
        "kl": scale * torch.as_tensor(kl),
        "compatibility": m.alpha * torch.as_tensor(compatibility),
        "entropy": m.beta * scale * torch.as_tensor(entropy),
    }


@pytest.mark.parametrize("compatibility", ["double-softmax", "log"])
@pytest.mark.parametrize("scaling", ["entries", "rows"])
def test_the_second_stage_descends_one_loss_in_weights_and_labels(compatibility: Any, scaling: Any) -> None:
    m = PENCIL(alpha=0.3, beta=0.7, compatibility=compatibility, scaling=scaling)
    logits, labels = random_logits(1), random_labels(1)
    kept = 3 * torch.randn(12, 4, generator=torch.manual_seed(2))
    step = make_step(logits, labels, rows=ROWS, state={"label_logits": kept.clone()})
    losses = m.label_step(step)
    torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]

    f, y = logits["raw/weak"].detach().double().requires_grad_(), kept[ROWS].double().requires_grad_()
    right = expected(m, f, y, labels)
    torch.stack(list(right.values())).sum().backward()  # type: ignore[no-untyped-call]
    assert list(losses) == list(right)
    for name, loss in losses.items():
        assert_allclose(loss.item(), right[name].item(), rtol=1e-5)
    (learned,) = step.row_parameters
    assert (learned.name, learned.lr) == ("label_logits", m.lambda_labels)
    assert torch.equal(learned.rows, ROWS)
    for ours, exact in ((logits["raw/weak"].grad, f.grad), (learned.values.grad, y.grad)):
        assert ours is not None
        assert exact is not None
        assert_allclose(ours, exact, rtol=1e-4, atol=1e-7)


def test_the_first_step_of_labels_is_small_and_has_a_closed_form() -> None:
    """ỹ = 10·e_y: the step is -λ/B · ((ŷ - p)/K + α · J(ŷ) (softmax(ŷ) - e_y)), at most 0.47 for the code's values."""
    n, k = 128, 10
    m = PENCIL(alpha=0.4, beta=0.1, lambda_labels=600.0)
    logits = random_logits(3, rows=n, classes=k, size=9.0)
    labels = random_labels(3, rows=n, classes=k)
    state = m.initial_state(Task(n, k, labels, 10))
    step = make_step(logits, labels, state=state)
    torch.stack(list(m.label_step(step).values())).sum().backward()  # type: ignore[no-untyped-call]
    (learned,) = step.row_parameters
    assert learned.values.grad is not None
    moved = -learned.lr * learned.values.grad

    p, e_y = logits["raw/weak"].detach().double().softmax(1), torch.eye(k, dtype=torch.float64)[labels]
    y_hat = (10 * e_y).softmax(1)
    pull = y_hat.softmax(1) - e_y
    jacobian_pull = y_hat * (pull - (y_hat * pull).sum(1, keepdim=True))
    assert_allclose(moved, -600 / n * ((y_hat - p) / k + 0.4 * jacobian_pull), atol=1e-6)
    assert 0.4 < moved.abs().max() <= 0.47


def test_the_engine_moves_the_labels_of_a_batch_by_their_gradient() -> None:
    m = PENCIL(stage1=0, stage2=1, lambda_labels=50.0)
    config = TrainConfig(epochs=1, batch_size=60, lr=0.0, ema=0.9)
    trainer = make_trainer(m, data=toy(), config=config, plain_views=True)
    before = trainer.state["label_logits"].clone()
    trainer.run()
    f = trainer.nets[0].module(trainer.inputs).detach().double()  # the rate is 0: the same network, training mode
    y = before.double().requires_grad_()
    torch.stack(list(expected(m, f, y, trainer.labels).values())).sum().backward()  # type: ignore[no-untyped-call]
    assert y.grad is not None
    assert_allclose(trainer.state["label_logits"] - before, -50 * y.grad, atol=2e-6)  # ỹ itself is rounded to 1e-6


def test_the_first_stage_is_cross_entropy() -> None:
    ours, plain = (make_trainer(m) for m in (PENCIL(stage1=4, stage2=4), Supervised(loss="ce")))
    ours.run()
    plain.run()
    assert_identical(weights(ours), weights(plain))


def test_in_the_third_stage_labels_stay_and_are_learned() -> None:
    logits, labels = random_logits(5), random_labels(5)
    kept = torch.randn(12, 4, generator=torch.manual_seed(6))
    step = make_step(logits, labels, rows=ROWS, state={"label_logits": kept.clone()})
    losses = PENCIL().fine_tuning_step(step)
    right = expected(PENCIL(), logits["raw/weak"].detach().double(), kept[ROWS].double(), labels)
    assert_allclose(losses["kl"].item(), right["kl"].item(), rtol=1e-5)
    assert list(losses) == ["kl"]
    assert not step.row_parameters


def test_the_third_stage_has_a_rate_of_its_own_that_never_becomes_zero() -> None:
    trainer = make_trainer(PENCIL(lr2=0.2, stage1=0, stage2=1), config=SHORT)
    rates = []
    update = trainer.learners[0].update

    def watched(*args: Any) -> None:
        update(*args)
        rates.append(trainer.learners[0].optimizer.param_groups[0]["lr"])

    trainer.learners[0].update = watched  # type: ignore[assignment, method-assign]
    trainer.run()
    steps = trainer.steps
    assert_allclose(rates[steps:], [0.2] * steps + [0.02] * steps + [0.002] * steps)


def test_labels_begin_at_ten_for_the_given_class_and_undecided_without_one() -> None:
    assert PENCIL().initial_state(task(4))["label_logits"].tolist() == [[10, 0, 0], [0, 10, 0], [0, 0, 0]]
    learned = PENCIL().evidence(PENCIL().initial_state(task(4)))["labels"]
    assert_allclose(learned[2], [1 / 3] * 3)
    assert_allclose(learned[0, 0], 1 / (1 + 2 * math.exp(-10)))


@pytest.mark.parametrize("epochs", range(2, 40))
def test_stages_fill_runs_of_any_length(epochs: int) -> None:
    lengths = [stage.epochs for stage in PENCIL().stages(task(epochs))]
    assert sum(lengths) == epochs
    assert min(lengths) >= 0
    assert lengths[1] > 0


def test_stages_that_end_before_they_begin_are_refused() -> None:
    with pytest.raises(UserError, match=r"stage1 is 5 epochs and method\.stage2 3"):
        PENCIL(stage1=5, stage2=3).stages(task(9))
    with pytest.raises(UserError, match="stage1_share"):
        PENCIL(stage1_share=0.9)
    with pytest.raises(UserError, match="lr2 is 0"):
        PENCIL(lr2=0.0)


def test_published_settings() -> None:
    many = published(Setting("cifar10", NoiseConfig(kind="symmetric", rate=0.8)))
    stages = {"lr2": 0.2, "stage1": 70, "stage2": 200, "reference_epochs": 320}
    assert many.build() == PENCIL(alpha=0.4, beta=0.1, lambda_labels=600.0, **stages)  # type: ignore[arg-type]
    assert many.train["lr"].value == 0.06
    pair = published(Setting("cifar10", NoiseConfig(kind="asymmetric", rate=0.4)))
    assert (pair.method["lambda_labels"].value, pair.method["alpha"].source) == (4000, "third-party")
    hundred = published(Setting("cifar100"))
    assert (hundred.train["lr"].value, hundred.train["epochs"].value) == (0.35, 320)
    lengths = [stage.epochs for stage in many.build().stages(task(320))]
    assert lengths == [70, 130, 120]
