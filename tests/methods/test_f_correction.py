"""Loss correction: its two losses, and the matrix it estimates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from engine.helpers import Recorder, assert_identical, make_trainer, toy, weights
from numpy.testing import assert_allclose
from torch import Tensor

from methods.reference import make_step, random_labels, random_logits, softmax
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.method_api import Epoch, Setting, Sweep, Task
from pars.methods import Supervised
from pars.methods.f_correction import ENTRIES, LossCorrection

CONFIG = TrainConfig(epochs=3, batch_size=16, lr=0.1, ema=0.9)
T4 = np.array([[0.7, 0.1, 0.2, 0.0], [0.0, 0.6, 0.1, 0.3], [0.25, 0.0, 0.75, 0.0], [0.1, 0.1, 0.1, 0.7]])
T3 = (0.6, 0.3, 0.1, 0.1, 0.7, 0.2, 0.25, 0.15, 0.6)


def of_four_classes(**changes: Any) -> LossCorrection:
    return LossCorrection(transition="matrix", matrix=tuple(T4.flatten().tolist()), **changes)


def state_of(method: LossCorrection, labels: Tensor, *, n_classes: int = 4, n_rows: int = 5) -> dict[str, Tensor]:
    return method.initial_state(Task(n_rows=n_rows, n_classes=n_classes, labels=labels, epochs=4))


def test_the_forward_loss_is_the_likelihood_of_the_given_label_through_T() -> None:
    method, logits, labels = of_four_classes(), random_logits(1), random_labels(1)
    step = make_step(logits, labels, state=state_of(method, labels))
    losses = method.step(step)
    expected = []
    for i, y in enumerate(labels.tolist()):
        p = softmax(logits["raw/weak"][i].detach().double().numpy())
        joint = np.array([p[k] * T4[k, y] for k in range(4)])
        expected.append(-math.log(joint.sum()))
        assert_allclose(step.state["posterior"][i], joint / joint.sum(), rtol=1e-4, atol=1e-6)
    assert_allclose(losses["forward"].item(), np.mean(expected), rtol=1e-5)


def test_the_backward_loss_is_unbiased_for_the_loss_of_the_true_label() -> None:
    """Σ_j T_ij · backward(p, j) = CE(p, i), whatever the prediction p."""
    method, logits = of_four_classes(direction="backward"), random_logits(2, rows=4)
    row = logits["raw/weak"].detach()[:1]
    every = torch.arange(4)
    losses = [
        float(
            method.step(make_step({**logits, "raw/weak": row}, every[j : j + 1], state=state_of(method, every)))[
                "backward"
            ]
        )
        for j in range(4)
    ]
    assert_allclose(T4 @ losses, -row[0].double().log_softmax(0), rtol=1e-4)


def test_a_class_whose_backward_loss_is_negative_counts_with_its_sign_turned() -> None:
    """Σ_k |mean over the batch of (T⁻¹)_yk · -log p_k|; without the bars there would be no least value."""
    logits, labels = random_logits(4, rows=6), torch.tensor([0, 0, 1, 2, 2, 0])
    inverse = np.linalg.inv(T4)
    p = [softmax(row) for row in logits["raw/weak"].detach().double().numpy()]
    of_class = [np.mean([-inverse[y, k] * math.log(p[i][k]) for i, y in enumerate(labels.tolist())]) for k in range(4)]
    assert min(of_class) < 0 < max(of_class)
    for nonnegative, expected in ((True, np.abs(of_class).sum()), (False, np.sum(of_class))):
        method = of_four_classes(direction="backward", nonnegative=nonnegative)
        losses = method.step(make_step(logits, labels, state=state_of(method, labels, n_rows=6)))
        assert_allclose(sum(loss.item() for loss in losses.values()), expected, rtol=1e-4)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_with_T_the_identity_it_is_cross_entropy(direction: Any) -> None:
    method = LossCorrection(direction=direction, transition="symmetric", noise_rate=0.0)
    ours, plain = (make_trainer(m, data=toy(), config=CONFIG) for m in (method, Supervised(loss="ce")))
    ours.run()
    plain.run()
    assert_identical(weights(ours), weights(plain))


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_minimizer_of_the_expected_loss_is_the_clean_posterior(direction: Any) -> None:
    """Three inputs with known P(true class | input); labels by T. What is minimized sees the noisy labels only."""
    clean = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.5, 0.2], [0.05, 0.15, 0.8]], dtype=torch.float64)
    noisy = clean @ torch.tensor(T3, dtype=torch.float64).reshape(3, 3)
    method = LossCorrection(direction=direction, transition="matrix", matrix=T3)
    state = state_of(method, torch.arange(3), n_classes=3, n_rows=3)
    logits = torch.zeros(3, 3, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=200, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

    def expected_loss() -> Tensor:
        optimizer.zero_grad()
        total = torch.zeros(())
        for i in range(3):
            for y in range(3):
                views = {"raw/weak": logits[i : i + 1], "more/weak": logits}
                step = make_step(views, torch.tensor([y]), state=state)
                total = total + float(noisy[i, y]) * method.step(step)[direction]  # backward: its unbiased part
        torch.autograd.backward(total)
        return total

    optimizer.step(expected_loss)  # type: ignore[no-untyped-call]
    assert_allclose(logits.detach().double().softmax(1), clean, atol=2e-3)
    assert (clean - noisy).abs().max() > 0.1  # plain cross-entropy would end there


def test_known_matrices_are_those_of_the_noise() -> None:
    labels = torch.zeros(5, dtype=torch.int64)
    symmetric = state_of(LossCorrection(transition="symmetric", noise_rate=0.3), labels)["transition"]
    assert_allclose(symmetric, np.full((4, 4), 0.1) + 0.6 * np.eye(4), rtol=1e-6)
    pair = state_of(LossCorrection(transition="pair", noise_rate=0.2), labels)["transition"]
    assert_allclose(pair, 0.8 * np.eye(4) + 0.2 * np.eye(4)[[1, 2, 3, 0]], rtol=1e-6)


def test_the_first_stage_averages_predictions() -> None:
    method, logits, labels = LossCorrection(averaging=0.6), random_logits(3), random_labels(3)
    rows = torch.tensor([4, 0, 7, 2, 9])
    state = state_of(method, labels, n_rows=12)
    old = torch.rand(12, 4, generator=torch.manual_seed(0))
    state["predictions"] = old.clone()
    losses = method.first_step(make_step(logits, labels, rows=rows, state=state))
    for i, row in enumerate(rows.tolist()):
        p = softmax(logits["raw/weak"][i].detach().double().numpy())
        assert_allclose(state["predictions"][row], 0.6 * old[row].double().numpy() + 0.4 * p, rtol=1e-5)
    others = [row for row in range(12) if row not in rows.tolist()]
    assert torch.equal(state["predictions"][others], old[others])
    assert_allclose(losses["ce"].item(), F.cross_entropy(logits["raw/weak"].detach(), labels).item(), rtol=1e-6)


def estimating(state: dict[str, Tensor], given: Tensor, *, rows: Tensor | None = None, index: int = 0) -> Epoch:
    def no_pass(*args: object, **options: object) -> Sweep:
        raise AssertionError("the network of the first stage is gone by now")

    every = torch.arange(len(given)) if rows is None else rows
    return Epoch((), index, 3, every, given, state["transition"].shape[0], state, np.random.default_rng(0), no_pass)


def test_the_matrix_is_estimated_once_from_labeled_rows_that_were_seen() -> None:
    method = LossCorrection(outliers=0.0)
    given = torch.tensor([0, 1, 2, 0, -1, 1, 2])
    state = state_of(method, given, n_classes=3, n_rows=7)
    # Half as long averaged is half as large: rows are scaled to distributions. Row 3 was never seen, row 4 has no
    # label, row 6 is held out.
    state["predictions"] = torch.tensor(
        [[0.4, 0.05, 0.05], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6], [0.0] * 3, [1, 0, 0], [0.3, 0.4, 0.3], [0, 0, 1]]
    )
    before = estimating(state, given, rows=torch.arange(6))
    method.estimate(before)
    expected = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
    assert_allclose(state["transition"], expected, atol=1e-6)
    assert_allclose(state["inverse"], np.linalg.inv(expected), rtol=1e-4)
    assert_allclose(before.notes["labels_right"], 0.7, rtol=1e-6)
    assert_allclose(before.notes["labels_right_least"], 0.6, rtol=1e-6)
    state["predictions"].fill_(1.0)
    method.estimate(estimating(state, given, index=1))
    assert_allclose(state["transition"], expected, atol=1e-6)


def test_where_two_classes_have_one_anchor_the_labels_are_taken_as_they_are() -> None:
    method, given = LossCorrection(outliers=0.0), torch.tensor([0, 1, 2])
    state = state_of(method, given, n_classes=3, n_rows=3)
    state["predictions"] = torch.tensor([[0.45, 0.45, 0.1], [0.4, 0.4, 0.2], [0.1, 0.2, 0.7]])
    before = estimating(state, given)
    method.estimate(before)
    assert torch.equal(state["transition"], torch.eye(3))
    assert before.notes["kept_last_split"] == 1


@pytest.mark.parametrize("epochs", [2, 3, 10, 60])
def test_the_second_stage_begins_anew_with_a_curve_of_its_own(epochs: int) -> None:
    task = Task(n_rows=5, n_classes=4, labels=random_labels(0), epochs=epochs)
    first, second = LossCorrection().stages(task)
    assert first.epochs == max(1, round(0.2 * epochs))
    assert first.epochs + second.epochs == epochs
    assert (second.restart, second.own_curve) == ("all", True)


def test_with_many_rows_the_estimate_comes_near_the_truth() -> None:
    """Well-separated clouds, 30 % of labels drawn at random: T_ii = 0.8, T_ij = 0.1."""
    seen, data = Recorder(), toy(360, spread=0.3)
    config = TrainConfig(epochs=10, batch_size=32, lr=0.05)
    trainer = make_trainer(LossCorrection(warm_up=5), data=data, config=config, callback=seen)
    trainer.run()
    true = torch.full((3, 3), 0.1) + 0.7 * torch.eye(3)
    found = trainer.state["transition"]
    assert (found - true).abs().sum(1).mean() < 0.5 * (torch.eye(3) - true).abs().sum(1).mean()
    assert [line["stage"] for line in seen.lines] == ["estimate"] * 5 + ["correct"] * 5
    assert "labels_right" in seen.lines[5]["notes"]
    evidence = trainer.method.evidence(trainer.state)
    posterior = evidence["posterior"]
    assert torch.equal(evidence["transition"], found)
    assert data.train.true_labels is not None
    assert (posterior.argmax(1).numpy() == data.train.true_labels).mean() > 0.92
    assert (data.train.labels == data.train.true_labels).mean() < 0.85


def test_published_settings() -> None:
    forward, backward = ENTRIES
    assert forward.recipe(Setting()).build() == LossCorrection(reference_epochs=60)
    assert backward.recipe(Setting()).build() == LossCorrection(direction="backward", reference_epochs=60)
    small, large = (forward.recipe(Setting(name)) for name in ("cifar10", "cifar100"))
    assert (small.method["outliers"].value, large.method["outliers"].value) == (0.03, 0.0)
    assert large.train["milestones"].value == (80 / 150, 120 / 150)  # of a stage of 150 epochs
    assert large.train["epochs"].value - large.method["warm_up"].value == 150


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"transition": "pair"}, r"method\.noise_rate is None, expected the share of wrong labels, 0 to 1: pair"),
        ({"transition": "symmetric", "noise_rate": 1.2}, r"method\.noise_rate is 1\.2"),
        ({"transition": "matrix", "matrix": (1.0, 0.0, 0.0)}, r"method\.matrix has 3 numbers, expected K·K"),
        ({"transition": "matrix", "matrix": (0.9, 0.2, 0.0, 1.0)}, r"row \[0\.9, 0\.2\], expected .* whose sum is 1"),
        ({"transition": "matrix", "matrix": (1.5, -0.5, 0.0, 1.0)}, r"row \[1\.5, -0\.5\]"),
        ({"noise_rate": 0.4}, r"method\.noise_rate is 0\.4, expected none: with --method\.transition anchor it has no"),
        (
            {"transition": "matrix", "noise_rate": 0.4, "matrix": (1.0, 0.0, 0.0, 1.0)},
            r"noise_rate is 0\.4, expected none",
        ),
        ({"matrix": (1.0, 0.0, 0.0, 1.0)}, r"method\.matrix is given, but only --method\.transition matrix"),
        ({"outliers": 1.0}, r"method\.outliers is 1\.0"),
        ({"averaging": 1.0}, r"method\.averaging is 1\.0, expected a momentum below 1"),
        ({"warm_up": 0}, r"method\.warm_up is 0, expected 1 epoch or more"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        LossCorrection(**wrong)


def test_a_matrix_that_does_not_fit_the_data_is_refused() -> None:
    labels = torch.tensor([0, 1, 2, 2, -1])
    with pytest.raises(UserError, match=r"method\.matrix has 16 numbers, expected 9 for 3 classes"):
        state_of(of_four_classes(), labels, n_classes=3)
    never = LossCorrection(transition="matrix", matrix=(0.5, 0.5, 0, 0.5, 0.5, 0, 0.5, 0.5, 0))
    with pytest.raises(UserError, match="says that no row is labeled 2, but some are"):
        state_of(never, labels, n_classes=3)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_labels_that_say_nothing_correct_nothing(direction: Any) -> None:
    uniform = LossCorrection(direction=direction, transition="symmetric", noise_rate=0.75)
    with pytest.raises(UserError, match=r"method\.noise_rate 0\.75: T has no inverse"):
        state_of(uniform, random_labels(0))
