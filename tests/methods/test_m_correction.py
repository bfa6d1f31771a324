"""M-correction against its equations row by row, and what it comes to where no label is doubted."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch
from engine.helpers import Recorder, assert_identical, make_trainer, network, toy, weights
from numpy.testing import assert_allclose
from torch import Tensor, nn

from methods.reference import Array, make_step, random_labels, random_logits, softmax
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.method_api import Batch, Epoch, Method, Network, Setting, Step, Task, values
from pars.methods.m_correction import ENTRIES, MCorrection, mix_by_trust
from pars.methods.mixup import Mixup
from pars.methods.parts.loss_mixture import fit_beta_mixture

TASK = Task(n_rows=60, n_classes=4, labels=torch.zeros(60, dtype=torch.int64), epochs=300)
TABLE = torch.linspace(0.05, 0.95, 100)
BOUNDS = torch.tensor([0.2, 4.0])


def doubted(losses: list[float]) -> list[float]:
    """B of rows with these losses: the bin of a loss, in the table."""
    return [float(TABLE[min(99, max(0, int(100 * (loss - 0.2) / (3.8 + 1e-6))))]) for loss in losses]


class Case:
    """A step on given logits, and its parts once more: the draws, B, one-hot labels, predictions."""

    def __init__(self, seed: int, *, epoch: int = 0) -> None:
        self.logits, self.labels = random_logits(seed), random_labels(seed)
        state = {"bounds": BOUNDS, "table": TABLE, "noisy": torch.zeros(5)}
        self.at = make_step(self.logits, self.labels, seed=seed, state=state, epoch=epoch)
        self.x = self.logits["raw/weak"].detach().double().numpy()
        self.p = np.array([softmax(row) for row in self.x])
        self.y = np.eye(4)[self.labels.numpy()]
        self.B = np.array(doubted([-math.log(p[y]) for p, y in zip(self.p, self.labels.tolist(), strict=True)]))
        self.rng = np.random.default_rng(seed)

    def bootstrapped(self, z: Array) -> Array:
        out: Array = (1 - self.B)[:, None] * self.y + self.B[:, None] * z
        return out


def mean_ce(logits: Array, targets: Array) -> float:
    return float(np.mean([-t @ np.log(softmax(row)) for row, t in zip(logits, targets, strict=True)]))


def balance(logits: Array) -> float:
    h = np.mean([softmax(row) for row in logits], axis=0)
    return float(np.sum(np.log(1 / (4 * h)) / 4))


@pytest.mark.parametrize("variant", ["M-DYR-H", "M-DYR-S"])
def test_a_bootstrap_step_weighs_labels_and_predictions_by_the_posterior(variant: str) -> None:
    case = Case(3)
    losses = MCorrection(variant=variant, rho=0.7).bootstrap_step(case.at)  # type: ignore[arg-type]
    delta, partner = case.rng.beta(32, 32), case.rng.permutation(5)
    mixed = delta * case.x + (1 - delta) * case.x[partner]
    t = case.bootstrapped(np.eye(4)[case.p.argmax(1)] if variant == "M-DYR-H" else case.p)
    expected = delta * mean_ce(mixed, t) + (1 - delta) * mean_ce(mixed, t[partner])
    assert_allclose(losses["bootstrap"].item(), expected, rtol=1e-5)
    assert_allclose(losses["balance"].item(), 0.7 * balance(mixed), rtol=1e-4)
    assert torch.equal(case.at.selections["clean"].selected, torch.tensor(case.B < 0.5))
    assert (case.at.net.forwards, case.at.net.backwards) == (10, 5)


def trust_mixed(x: Array, noisy: Array, partner: npt.NDArray[np.int64]) -> Array:
    rows = []
    for p, q in enumerate(partner):
        z = (1 - noisy[p]) + (1 - noisy[q])
        rows.append((1 - noisy[p]) / z * x[p] + (1 - noisy[q]) / z * x[q])
    return np.array(rows)


def test_dynamic_mixup_mixes_rows_by_trust_and_labels_by_chance() -> None:
    case = Case(4)
    losses = MCorrection(variant="MD-DYR-SH").dynamic_step(case.at)
    weight, partner = case.rng.beta(32, 32), case.rng.permutation(5)
    mixed = trust_mixed(case.x, case.B, partner)
    expected = weight * mean_ce(mixed, case.y) + (1 - weight) * mean_ce(mixed, case.y[partner])
    assert losses.keys() == {"dynamic"}
    assert_allclose(losses["dynamic"].item(), expected, rtol=1e-5)


@pytest.mark.parametrize(("epoch", "temperature"), [(0, 1.0), (2, 1 - 2 * 0.9 / 8), (8, 0.1), (20, 0.1)])
def test_predictions_harden_epoch_by_epoch(epoch: int, temperature: float) -> None:
    case = Case(5, epoch=epoch)
    losses = MCorrection(variant="MD-DYR-SH", T_end=0.1).soft_to_hard_step(case.at, epochs=9)
    partner = case.rng.permutation(5)
    mixed = trust_mixed(case.x, case.B, partner)
    t = case.bootstrapped(np.array([softmax(row / temperature) for row in case.x]))
    assert_allclose(losses["bootstrap"].item(), (mean_ce(mixed, t) + mean_ce(mixed, t[partner])) / 2, rtol=1e-5)
    assert_allclose(losses["balance"].item(), balance(mixed), rtol=1e-4)


def test_a_cold_prediction_is_a_class() -> None:
    case = Case(6, epoch=99)
    losses = MCorrection(variant="MD-DYR-SH").soft_to_hard_step(case.at, epochs=9)
    partner = case.rng.permutation(5)
    t = case.bootstrapped(np.eye(4)[case.p.argmax(1)])
    expected = mean_ce(trust_mixed(case.x, case.B, partner), (t + t[partner]) / 2)
    assert_allclose(losses["bootstrap"].item(), expected, rtol=1e-5)


def test_rows_that_are_trusted_alike_are_mixed_half_and_half() -> None:
    view, partner = torch.randn(4, 3, 2, 2, generator=torch.manual_seed(0)), torch.tensor([2, 0, 3, 1])
    assert_allclose(mix_by_trust(view, torch.full((4,), 0.3), partner), (view + view[partner]) / 2, rtol=1e-5)
    noisy = torch.tensor([0.0, 1.0, 0.0, 1.0])
    assert torch.equal(mix_by_trust(view, noisy, torch.tensor([1, 0, 3, 2])), view[[0, 0, 2, 2]])


def test_the_posterior_is_measured_with_running_statistics_and_predictions_with_the_batch_s() -> None:
    """A network whose statistics are those of other rows: its two answers to a batch differ."""
    module = network(seed=1)
    with torch.no_grad():
        for _ in range(20):
            module(3 + 2 * torch.randn(16, 4))
    x, labels = torch.randn(6, 4, generator=torch.manual_seed(0)), torch.tensor([0, 1, 2, 0, 1, 2])
    net = Network(module, copy.deepcopy(module))
    state = {"bounds": BOUNDS, "table": TABLE}
    step = Step(
        (net,), {"labeled": Batch(torch.arange(6), labels, lambda *_: x)}, state, np.random.default_rng(0), 0, 0, 0
    )
    found = MCorrection().doubts(step)
    answers = [copy.deepcopy(module).train(mode)(x).detach().double().softmax(1).numpy() for mode in (False, True)]
    evaluated, trained = (
        doubted([-math.log(row[y]) for row, y in zip(p, labels.tolist(), strict=True)]) for p in answers
    )
    assert_allclose(found, evaluated, rtol=1e-6)
    assert not np.allclose(found, trained)


class Trusting(MCorrection):
    """Never fits: B stays 0."""

    def fit(self, epoch: Epoch) -> None:
        pass


def trained(method: Method) -> dict[str, Tensor]:
    trainer = make_trainer(method, config=TrainConfig(epochs=3, batch_size=16, lr=0.1, ema=0.9))
    trainer.run()
    return weights(trainer)


@pytest.mark.parametrize("variant", ["M-DYR-H", "M-DYR-S"])
def test_without_doubts_and_balance_it_is_mixup(variant: str) -> None:
    ours = trained(Trusting(variant=variant, rho=0.0, warm_up=1))  # type: ignore[arg-type]
    assert_identical(ours, trained(Mixup(alpha=32.0)))
    assert not torch.equal(ours["raw.0.head.weight"], trained(MCorrection(rho=0.0, warm_up=1))["raw.0.head.weight"])


def test_the_mixture_is_fitted_to_the_losses_of_labeled_rows_in_evaluation_mode() -> None:
    held = np.arange(60) % 7 == 0
    method = MCorrection(warm_up=2)
    trainer = make_trainer(method, data=toy(unlabeled=10), held_out=held, plain_views=True)
    for _ in range(2):
        trainer._run_epoch([])
    rows = np.flatnonzero(~held & (trainer.labels.numpy() >= 0))
    logits = copy.deepcopy(trainer.nets[0].module).eval()(trainer.inputs[rows]).detach().double()
    labels = trainer.labels[rows]
    losses = -logits.log_softmax(1)[torch.arange(len(rows)), labels]
    trainer.runner.before_epoch(trainer.runner.stage_of(2), trainer.nets, 2)
    split = fit_beta_mixture(losses)
    assert_allclose(trainer.state["bounds"], split.bounds, rtol=1e-5)
    assert_allclose(trainer.state["table"], split.table.clamp(1e-4, 1 - 1e-4), rtol=1e-3)
    assert_allclose(method.evidence(trainer.state)["noisy"][rows], 1 - split.low, rtol=1e-3)
    assert (np.delete(trainer.state["noisy"].numpy(), rows) == 0).all()


def test_a_fit_of_one_component_keeps_the_last_one() -> None:
    """All labels alike, and a network that answers all rows alike."""
    data = toy()
    data = replace(data, train=replace(data.train, labels=np.zeros(60, dtype=np.int64)))
    seen = Recorder()
    trainer = make_trainer(MCorrection(warm_up=0), data=data, config=TrainConfig(epochs=1, lr=0.0), callback=seen)
    nn.init.zeros_(trainer.nets[0].module.head.weight)  # type: ignore[union-attr, arg-type]
    trainer.run()
    assert seen.lines[0]["notes"] == {"kept_last_split": 1.0}
    assert not trainer.state["table"].any()


def test_clean_and_noisy_rows_are_told_apart() -> None:
    data = toy(300, noise=0.4, spread=0.3)
    trainer = make_trainer(MCorrection(), data=data, config=TrainConfig(epochs=20, batch_size=32, lr=0.1, ema=0.9))
    trainer.run()
    assert data.train.true_labels is not None
    wrong = data.train.labels != data.train.true_labels
    noisy = trainer.method.evidence(trainer.state)["noisy"].numpy()
    assert noisy[wrong].mean() > noisy[~wrong].mean() + 0.5


@pytest.mark.parametrize(
    ("variant", "epochs"), [("M-DYR-H", [105, 195]), ("M-DYR-S", [105, 195]), ("MD-DYR-SH", [105, 5, 190])]
)
def test_published_stages(variant: str, epochs: list[int]) -> None:
    (entry,) = (e for e in ENTRIES if values(e.recipe(Setting("cifar10")).method)["variant"] == variant)
    recipe = entry.recipe(Setting("cifar100"))
    method = recipe.build()
    assert [stage.epochs for stage in method.stages(TASK)] == epochs
    assert recipe.train["epochs"].value == 300
    if variant == "MD-DYR-SH":
        assert method.stages(TASK)[2].step.keywords == {"epochs": 89}  # type: ignore[attr-defined]


@pytest.mark.parametrize("variant", ["M-DYR-H", "MD-DYR-SH"])
@pytest.mark.parametrize("epochs", [2, 3, 7, 60])
def test_stages_add_up_to_any_run(variant: str, epochs: int) -> None:
    stages = MCorrection(variant=variant).stages(replace(TASK, epochs=epochs))  # type: ignore[arg-type]
    assert sum(stage.epochs for stage in stages) == epochs
    assert stages[-1].epochs > 0


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(UserError, match=r"method\.alpha is 0"):
        MCorrection(alpha=0)
    with pytest.raises(UserError, match=r"method\.T_end is 2, expected a number from 1e-06 to 1"):
        MCorrection(T_end=2)
    with pytest.raises(UserError, match=r"method\.variant is 'hard', expected one of 'M-DYR-H', 'M-DYR-S'"):
        MCorrection(variant="hard")  # type: ignore[arg-type]
