"""SELFIE against a loop over rows; what a restart forgets and what it keeps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from engine.helpers import Recorder, assert_identical, make_trainer, toy, weights
from numpy.testing import assert_allclose
from torch import Tensor

from methods.by_hand import epoch_of, random, random_classes, step_of
from methods.two_networks import cross_entropies, smallest
from pars.engine import TrainConfig
from pars.method_api import Setting, Step, Task
from pars.methods import Supervised
from pars.methods.selfie import SELFIE, published, refurbished, remember
from pars.noise import NoiseConfig


@pytest.mark.parametrize(("classes", "dissenting"), [(10, 0), (10, 1), (100, 0), (100, 1), (100, 7)])
def test_unanimity_is_the_paper_s_threshold_on_the_entropy_of_fifteen_predictions(
    classes: int, dissenting: int
) -> None:
    votes = torch.full((1, 15), 3)
    votes[0, :dissenting] = 5
    shares = [share for share in (dissenting / 15, 1 - dissenting / 15) if share]
    uncertainty = -sum(share * math.log(share) for share in shares) / math.log(classes)
    assert (int(refurbished(votes, torch.tensor([-1]))[0]) == 3) == (uncertainty <= 0.05)


def test_a_row_with_too_few_predictions_is_not_refurbished_and_an_earlier_correction_stays() -> None:
    predictions = torch.tensor([[-1, 2, 2], [-1, -1, -1], [2, 2, 2], [0, 0, 0], [1, 2, 2]])
    corrected = torch.tensor([-1, 0, 1, -1, 1])
    assert refurbished(predictions, corrected).tolist() == [-1, 0, 2, 0, 1]


def test_the_last_q_predictions_of_each_row_are_remembered() -> None:
    predictions = torch.tensor([[0, 1, 2], [3, 3, 3], [1, 1, 0]])
    remember(predictions, torch.tensor([2, 0, 2]), torch.tensor([7, 8, 9]))  # row 2 twice: its first counts
    assert predictions.tolist() == [[1, 2, 8], [3, 3, 3], [1, 0, 7]]


def hand_made(seed: int, tau: float) -> tuple[Step, Tensor, Tensor]:
    rows, logits, given = torch.tensor([6, 1, 11, 0, 4, 9, 3, 8]), random(seed, 8, 4), random_classes(seed, 8, 4)
    rng = np.random.default_rng(seed)
    predictions = torch.tensor(rng.integers(4, size=(12, 3)))
    predictions[[0, 6, 9]] = torch.tensor([[2], [1], [3]])  # unanimous
    state = {
        "noise_rate": torch.tensor(tau, dtype=torch.float64),
        "predictions": predictions,
        "corrected": torch.tensor([-1, 1, 2, -1, -1, -1, 0, -1, -1, -1, 3, 0]),
    }
    return step_of({"labeled": (rows, given, {"weak/0": logits})}, state), logits, given


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tau", [0.0, 0.3, 0.8])
def test_clean_and_refurbishable_rows_are_learned_with_their_own_labels(seed: int, tau: float) -> None:
    step, logits, given = hand_made(seed, tau)
    old = {name: tensor.clone() for name, tensor in step.state.items()}
    loss = SELFIE(q=3).step(step, warm_up=0)["ce"]
    clean = smallest(cross_entropies(logits, given), math.ceil((1 - tau) * 8 - 1e-9))
    values = []
    for i, row in enumerate(step.batch.rows.tolist()):
        votes = set(old["predictions"][row].tolist())
        c = votes.pop() if len(votes) == 1 else int(old["corrected"][row])
        assert int(step.state["corrected"][row]) == c
        assert step.state["predictions"][row].tolist() == [
            *old["predictions"][row].tolist()[1:],
            int(logits[i].argmax()),
        ]
        if c != -1 or i in clean:
            label = torch.tensor([int(given[i]) if c == -1 else c])
            values += cross_entropies(logits[i : i + 1], label)
    assert_allclose(loss.item(), np.mean(values), rtol=1e-5)
    others = [row for row in range(12) if row not in step.batch.rows.tolist()]
    assert all(torch.equal(step.state[name][others], old[name][others]) for name in ("corrected", "predictions"))


def test_the_warm_up_learns_every_row_corrected_where_it_was_and_corrects_none() -> None:
    step, logits, given = hand_made(1, 0.5)
    before = step.state["corrected"].clone()
    loss = SELFIE(q=3).step(step, warm_up=1)["ce"]
    labels = torch.where(before[step.batch.rows] >= 0, before[step.batch.rows], given)
    assert_allclose(loss.item(), np.mean(cross_entropies(logits, labels)), rtol=1e-5)
    assert torch.equal(step.state["corrected"], before)
    assert torch.equal(step.state["predictions"][step.batch.rows, -1], logits.argmax(dim=1))


def test_a_restart_keeps_corrections_forgets_predictions_and_lowers_tau() -> None:
    method = SELFIE(noise_rate=0.6, q=3)
    given = torch.tensor([0, 1, 0, 1, -1, 1])
    state = method.initial_state(Task(n_rows=6, n_classes=2, labels=given, epochs=9))
    state["corrected"] = torch.tensor([1, 1, 0, -1, -1, -1])
    state["predictions"][:] = 1
    rows = torch.tensor([0, 1, 2, 3, 4])  # the last is held out: of four labeled rows three are corrected
    epoch = epoch_of(given, state, 2, rows=rows)
    method.before_epoch(epoch)
    assert state["corrected"].tolist() == [1, 1, 0, -1, -1, -1]
    assert (state["predictions"] == -1).all()
    assert float(state["noise_rate"]) == 0.25
    assert epoch.notes == {"noise_rate": 0.25, "corrected": 0.75}
    state["predictions"][:] = 1
    state["corrected"][:] = 0
    method.before_epoch(replace(epoch, index=1))  # within a run nothing of the kind
    assert (state["predictions"] == 1).all()
    assert float(state["noise_rate"]) == 0.25


def test_tau_never_grows() -> None:
    state = {
        "noise_rate": torch.tensor(0.2, dtype=torch.float64),
        "predictions": torch.full((4, 3), 1),
        "corrected": torch.tensor([0, -1, -1, -1]),
    }
    SELFIE().before_epoch(epoch_of(torch.tensor([0, 1, 0, 1]), state, 2))
    assert float(state["noise_rate"]) == 0.2


def test_runs_fill_the_epochs_and_each_but_the_first_begins_anew() -> None:
    for epochs in (2, 3, 7, 20, 60):
        task = Task(n_rows=1, n_classes=2, labels=torch.zeros(1).long(), epochs=epochs)
        stages = SELFIE(restarts=2).stages(task)
        assert sum(stage.epochs for stage in stages) == epochs
        assert max(s.epochs for s in stages) - min(s.epochs for s in stages) <= 1
        assert [stage.restart for stage in stages] == ["none", "all", "all"]


def test_each_run_goes_through_the_learning_rate_once_and_ends_with_all_that_was_corrected() -> None:
    config = TrainConfig(epochs=24, batch_size=16, lr=0.1, schedule="steps", milestones=(0.5,), gamma=0.1)
    seen = Recorder()
    trainer = make_trainer(SELFIE(q=3, noise_rate=0.3), data=toy(120), config=config, callback=seen)
    rates: list[float] = []
    seen.step = lambda rows: rates.append(trainer.learners[0].optimizer.param_groups[0]["lr"])  # type: ignore[method-assign]
    trainer.run()
    per_run = [round(rate, 6) for rate in np.reshape(rates, (3, 8, 8)).mean(axis=2).ravel().tolist()]
    assert per_run == ([0.1] * 4 + [0.01] * 4) * 3
    corrected = [line["notes"]["corrected"] for line in seen.lines]
    assert corrected == sorted(corrected)
    assert corrected[-1] > 0.5
    assert [line["notes"]["noise_rate"] for line in seen.lines][-1] <= 0.3


@pytest.mark.parametrize(("epochs", "restarts", "at"), [(3, 2, None), (4, 2, 1), (42, 20, 1), (60, 2, 4)])
def test_the_noise_rate_is_estimated_in_the_first_run_that_has_trained_for_an_epoch(
    epochs: int, restarts: int, at: int | None
) -> None:
    task = Task(n_rows=60, n_classes=3, labels=torch.zeros(60, dtype=torch.int64), epochs=epochs)
    found = [stage.before_epoch.keywords["estimate_at"] for stage in SELFIE(restarts=restarts).stages(task)]  # type: ignore[union-attr]
    assert found == [at] + [None] * restarts


def test_without_restarts_in_its_warm_up_it_is_cross_entropy() -> None:
    ours = make_trainer(SELFIE(restarts=0, warm_up_share=1.0))
    plain = make_trainer(Supervised(loss="ce"))
    ours.run()
    plain.run()
    assert_identical(weights(ours), weights(plain))


def test_published_settings() -> None:
    pair = NoiseConfig(kind="pair", rate=0.4)
    recipe = published(Setting("cifar10", pair))
    assert recipe.build() == SELFIE(noise_rate=0.4, q=15, warm_up=25, restarts=2, reference_epochs=300)
    assert recipe.train["epochs"].value == 300
    assert published(Setting()).build() == SELFIE(q=15, reference_epochs=300)
