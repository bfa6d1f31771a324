"""A budget buys so many epochs: what is planned is what a run then costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from engine.helpers import Recorder, make_trainer, network, toy, views
from pars.engine import NetworkCost, Plan, RowCounts, TrainConfig, Trainer, epoch_costs, network_cost, plan
from pars.engine.plan import nearest_share, plan_for
from pars.errors import UserError
from pars.method_api import Method, Task
from pars.methods import PARS, REGISTRY, PARSFast, Supervised, by_name

HELD = np.arange(120) % 6 == 0
FEW_LABELS = toy(n=120, unlabeled=60)
PER_EPOCH = 7 * 16  # steps of so many rows: more than there are labels
CONFIG = TrainConfig(batch_size=16, lr=0.05, ema=0.9, steps_per_epoch=7, dynamics_every=0, evaluate_every=1000)
ROW_FLOP = network_cost(network(), torch.from_numpy(FEW_LABELS.train.inputs[:2])).training
# Passes over all rows in each epoch or in one, stages that cost differently, passes beside the step's, two networks.
SEVERAL = ("pars", "co-teaching-plus", "mlnt", "md-dyr-sh", "dividemix+", "fixmatch", "pes", "disc", "ssr+")
PASS = NetworkCost(1 / 3, 1.0)
ROWS = RowCounts(every=100, labeled=100, per_epoch=100, n_classes=3)
TASK = Task(100, 3, torch.arange(100) % 3, 1)


def trainer_of(method: Method, config: TrainConfig, **options: Any) -> Trainer:
    return make_trainer(method, data=FEW_LABELS, config=config, held_out=HELD, **options)


def plan_of(method: Method, config: TrainConfig) -> Plan:
    networks = [network() for _ in range(method.networks)]
    return plan(method=method, data=FEW_LABELS, networks=networks, views=views(), config=config, held_out=HELD)


def passes_for(method: Method, budget: float) -> Plan:
    """A budget in passes of the rows, forward and back."""
    return plan_for(method, budget * 100 / 1e15, TASK, ROWS, (PASS,) * method.networks)


@pytest.mark.parametrize(("name", "optimizer"), [*((name, "sgd") for name in SEVERAL), ("pars", "muon")])
def test_a_run_with_few_labels_costs_what_was_planned_and_not_more_than_its_budget(name: str, optimizer: Any) -> None:
    method = by_name(name)
    epochs = 26 if name == "md-dyr-sh" else 12
    config = replace(CONFIG, optimizer=optimizer, budget=epochs * PER_EPOCH * ROW_FLOP * REGISTRY[name].cost / 1e15)
    made = plan_of(method, config)
    trainer = trainer_of(made.method, replace(config, epochs=made.epochs), planned=made.by_epoch)
    trainer.run()
    assert trainer.epoch == made.epochs
    assert trainer.flop <= config.budget * 1e15
    assert trainer.flop <= 1.001 * made.flop
    # What these two pass depends on which labels they come to trust: the plan takes the highest cost.
    assert trainer.flop >= (0.75 if name in ("disc", "pes") else 0.95) * made.flop
    assert (
        made.flop + max(max(made.by_epoch), 0.03 * config.budget * 1e15) > config.budget * 1e15
    )  # one more is too much


@pytest.mark.parametrize(
    "changes",
    [{"agreement_start": 0.75}, {"agreement_start": 0.9}, {"agreement_start": 0.85, "pseudo": False}],
    ids=str,
)
def test_a_run_that_asks_its_teacher_more_in_its_late_part_ends_within_its_budget(changes: dict[str, Any]) -> None:
    method = PARSFast(pool="all", temporal_teacher=False, sampling="uniform", **changes)
    config = replace(CONFIG, budget=(40 if "pseudo" in changes else 120) * PER_EPOCH * ROW_FLOP / 1e15)
    made = plan_of(method, config)
    trainer = trainer_of(made.method, replace(config, epochs=made.epochs), planned=made.by_epoch)
    trainer.run()
    assert trainer.epoch == made.epochs > 24  # more than the probe has
    assert 0.9 * config.budget <= trainer.flop / 1e15 <= config.budget


@pytest.mark.parametrize("name", [name for name, entry in REGISTRY.items() if entry.file != "robust_losses.py"])
def test_the_costliest_stage_is_as_costly_as_the_catalog_says(name: str) -> None:
    method = by_name(name)
    found: dict[str, list[float]] = {}
    for stage, passes in epoch_costs(method, 9, ROWS, [PASS] * method.networks):
        found.setdefault(stage, []).append(passes / 100)
    assert max(float(np.median(each)) for each in found.values()) == pytest.approx(REGISTRY[name].cost, rel=0.01)


def test_warm_up_and_main_stage_fill_a_budget_as_near_to_the_share_as_whole_epochs_allow() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        first, second = rng.uniform(0.5, 6, size=2)
        budget, share = rng.uniform(first + second, 60), rng.uniform(0.1, 0.9)  # at most 118 of the cheaper
        unused = max(min(first, second), 0.03 * budget)
        full = [
            (w, m)
            for w in range(1, 130)
            for m in range(1, 130)
            if w * first + m * second <= budget < w * first + m * second + unused
        ]
        w, m = nearest_share(budget, first, second, share)
        assert (w, m) in full
        assert abs(w / (w + m) - share) == min(abs(a / (a + b) - share) for a, b in full)


def test_a_length_that_was_given_is_kept() -> None:
    free, given = passes_for(PARS(), 33), passes_for(PARS(warm_up=8), 33)
    assert [(stage.stage, stage.epochs) for stage in free.stages] == [("warm-up", 3), ("main", 6)]
    assert free.method == PARS(warm_up=3)
    assert [(stage.stage, stage.epochs) for stage in given.stages] == [("warm-up", 8), ("main", 5)]
    assert given.method == PARS(warm_up=8)
    assert free.flop == given.flop == pytest.approx(3300)


def test_a_budget_that_is_too_small_or_endless_is_refused() -> None:
    with pytest.raises(UserError, match=r"PARS needs at least 6e-13 here: 2 epochs \(warm-up 1, main 1\)"):
        passes_for(PARS(), 5.9)
    assert passes_for(PARS(), 6).epochs == 2
    with pytest.raises(UserError, match=r"needs at least 3e-12 here: 26 epochs \(warm-up 25, main 1\)"):
        passes_for(PARS(warm_up=25), 29.9)
    with pytest.raises(UserError, match="more than 1000000 epochs here"):
        passes_for(Supervised(), 2e6)


def test_a_run_that_costs_more_than_planned_stops_before_its_budget_is_exceeded_and_says_so() -> None:
    method = Supervised()
    epoch = PER_EPOCH * ROW_FLOP
    config = replace(CONFIG, epochs=10, budget=5.5 * epoch / 1e15)
    seen = Recorder()
    trainer = trainer_of(method, config, planned=[0.7 * epoch] * 10, callback=seen)
    trainer.run()
    assert trainer.epoch == 5
    assert [line.get("stopped") for line in seen.lines] == [None] * 4 + ["budget"]
    assert "test" in seen.lines[-1]  # evaluated there, though none was due
    assert "test" not in seen.lines[-2]
