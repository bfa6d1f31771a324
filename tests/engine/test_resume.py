"""Stopped at any step and resumed, a run ends as if it had never been stopped: bit for bit."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.helpers import SHORT, assert_identical, make_trainer, toy
from engine.test_trainer import HELD, Peers
from pars.engine import Callback, Interrupted, RunFolder, Trainer
from pars.engine.checkpoint import load_tensors, save_tensors
from pars.errors import UserError
from pars.method_api import Method
from pars.methods import PARS, PARSFast, PARSPaper, Supervised

STEPS = 4 * 3  # four epochs of three steps: 48 of the 60 rows are trained on

METHODS: dict[str, dict[str, Any]] = {
    "pars": {"method": PARS(warm_up=2, tau=0.5)},
    "pars with dropout": {"method": PARS(warm_up=1, tau=0.5), "dropout": 0.3},
    "pars, labeled by earlier outputs": {"method": PARSFast(warm_up=2, tau=0.5, sampling="uniform")},
    "pars, earlier outputs of all rows": {"method": PARSFast(warm_up=1, tau=0.5, pool="all", sampling="uniform")},
    "pars, drawn by gradient norm": {"method": PARSFast(warm_up=1, tau=0.5, temporal_teacher=False)},
    "pars as from pixels": {"method": PARSFast(warm_up=1, tau=0.5, agreement_start=0.6, agreement_tau=0.4)},
    "the paper's pars": {"method": PARSPaper(warm_up=1, tau=0.5)},
    "plain": {"method": Supervised(), "config": replace(SHORT, momentum=0.0, checkpoint_every=3)},
    "muon": {"method": PARS(warm_up=2, tau=0.5), "config": replace(SHORT, optimizer="muon", nesterov=True)},
    "best epoch selected": {"method": PARS(warm_up=1, tau=0.5), "config": replace(SHORT, lr=1.0, select="best-epoch")},
    "two networks and row state": {"method": Peers(), "dropout": 0.3, "config": replace(SHORT, nesterov=True)},
}


class StopAt(Callback):
    """Presses Ctrl-C, so to speak, in the course of some step."""

    def __init__(self, step: int, times: int = 1) -> None:
        self.left, self.times = step, times

    def step(self, rows: int) -> None:
        self.left -= 1
        if self.left == 0:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


def trainer_in(folder: Path, settings: dict[str, Any], callback: Callback | None = None) -> Trainer:
    return make_trainer(**settings, data=toy(), folder=folder, callback=callback, held_out=HELD)


def outcome(folder: Path) -> tuple[bytes, list[dict[str, Any]]]:
    return RunFolder(folder).model.read_bytes(), RunFolder(folder).read_metrics()


@pytest.mark.parametrize("settings", METHODS.values(), ids=METHODS)
def test_stopped_after_any_step_and_resumed_it_ends_the_same(settings: dict[str, Any], tmp_path: Path) -> None:
    whole = trainer_in(tmp_path / "whole", settings)
    whole.run()
    for step in range(1, STEPS + 1):
        folder = tmp_path / str(step)
        with pytest.raises(Interrupted):
            trainer_in(folder, settings, StopAt(step)).run()
        resumed = trainer_in(folder, settings)
        resumed.restore()
        assert (resumed.epoch * 3 + resumed.step) == step
        resumed.run()
        assert_identical(resumed.tensors(), whole.tensors())
        assert outcome(folder) == outcome(tmp_path / "whole")


@pytest.mark.parametrize("settings", METHODS.values(), ids=METHODS)
def test_stopped_after_every_step_it_ends_the_same(settings: dict[str, Any], tmp_path: Path) -> None:
    whole = trainer_in(tmp_path / "whole", settings)
    whole.run()
    stops = 0
    while True:
        trainer = trainer_in(tmp_path / "stopped", settings, StopAt(1))
        if stops:
            trainer.restore()
        try:
            trainer.run()
            break
        except Interrupted:
            stops += 1
    assert stops == STEPS
    assert_identical(trainer.tensors(), whole.tensors())
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")


def test_saving_inside_an_epoch_changes_nothing(tmp_path: Path) -> None:
    settings = METHODS["pars"]
    trainer_in(tmp_path / "a", settings).run()
    often = replace(SHORT, checkpoint_seconds=0.0)
    trainer_in(tmp_path / "b", settings | {"config": often}).run()
    assert outcome(tmp_path / "a") == outcome(tmp_path / "b")


def test_epochs_logged_after_the_last_checkpoint_are_run_again_not_logged_twice(tmp_path: Path) -> None:
    settings = METHODS["pars"] | {"config": replace(SHORT, checkpoint_every=2)}
    trainer_in(tmp_path / "whole", settings).run()
    folder = tmp_path / "killed"
    trainer_in(folder, settings).run()
    saved = RunFolder(tmp_path / "killed").checkpoint
    with pytest.raises(Interrupted):
        trainer_in(tmp_path / "other", settings, StopAt(6)).run()
    # What a kill after the third epoch leaves: three lines and a bit, and the checkpoint of the second epoch's end.
    saved.write_bytes(RunFolder(tmp_path / "other").checkpoint.read_bytes())
    RunFolder(folder).truncate_metrics(3)
    with RunFolder(folder).metrics.open("a") as file:
        file.write('{"epoch": 4, "los')
    resumed = trainer_in(folder, settings)
    resumed.restore()
    resumed.run()
    assert outcome(folder) == outcome(tmp_path / "whole")


def test_a_run_killed_before_its_first_checkpoint_starts_again(tmp_path: Path) -> None:
    settings = METHODS["pars"]
    trainer_in(tmp_path / "whole", settings).run()
    folder = tmp_path / "killed"
    folder.mkdir()
    RunFolder(folder).metrics.write_text(json.dumps({"epoch": 1}) + "\n")  # logged, but not yet saved
    resumed = trainer_in(folder, settings)
    resumed.restore()
    resumed.run()
    assert outcome(folder) == outcome(tmp_path / "whole")


def test_a_finished_run_resumes_to_itself(tmp_path: Path) -> None:
    trainer_in(tmp_path, METHODS["pars"]).run()
    before = outcome(tmp_path)
    again = trainer_in(tmp_path, METHODS["pars"])
    again.restore()
    again.run()
    assert outcome(tmp_path) == before


def test_a_second_interruption_stops_at_once(tmp_path: Path) -> None:
    trainer = trainer_in(tmp_path, METHODS["pars"], StopAt(5, times=2))
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    resumed = trainer_in(tmp_path, METHODS["pars"])
    resumed.restore()
    assert (resumed.epoch, resumed.step) == (1, 0)  # the end of the first epoch: the last checkpoint there was


def test_the_interrupt_handler_is_given_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    make_trainer(Supervised()).run()
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(Interrupted):
        make_trainer(Supervised(), callback=StopAt(2)).run()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("method", [Supervised(), PARS(warm_up=2)], ids=["plain", "pars"])
def test_other_seeds_end_elsewhere(method: Method) -> None:
    trainers = [make_trainer(method, seed=seed) for seed in (0, 1)]
    for trainer in trainers:
        trainer.run()
    with pytest.raises(AssertionError):
        assert_identical(*(trainer.tensors() for trainer in trainers))


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        trainer_in(tmp_path, METHODS["pars"], StopAt(4)).run()
    checkpoint = RunFolder(tmp_path).checkpoint
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"checkpoint\.safetensors is not a file written by pars, or is damaged"):
        trainer_in(tmp_path, METHODS["pars"]).restore()


@pytest.mark.parametrize(
    "damage",
    [
        {"note": {"epoch": 99}},
        {"note": {"step": -1}},
        {"note": {"work": None}},
        {"note": {"meter": []}},
        {"lost": "optimizer.0.0.momentum_buffer", "added": {"optimizer.0.0.momentum_buffer": torch.zeros(1)}},
        {"added": {"optimizer.0.99.momentum_buffer": torch.zeros(1)}},
        {"lost": "raw.0.head.bias"},
        {"lost": "meter.loss/raw"},
        {"added": {"meter.loss/raw": torch.zeros(2)}},
    ],
)
def test_a_checkpoint_that_does_not_fit_leaves_the_log_alone(damage: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        trainer_in(tmp_path, METHODS["pars"], StopAt(4)).run()
    folder = RunFolder(tmp_path)
    tensors, note = load_tensors(folder.checkpoint)
    tensors.pop(damage.get("lost", ""), None)
    save_tensors(folder.checkpoint, tensors | damage.get("added", {}), note | damage.get("note", {}))
    folder.append_metrics({"epoch": 2})  # what a resume would forget
    before = folder.metrics.read_bytes()
    with pytest.raises(UserError, match=r"checkpoint\.safetensors does not fit"):
        trainer_in(tmp_path, METHODS["pars"]).restore()
    assert folder.metrics.read_bytes() == before


def test_a_lost_checkpoint_does_not_cost_the_epochs_of_the_log(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        trainer_in(tmp_path, METHODS["pars"], StopAt(7)).run()
    folder = RunFolder(tmp_path)
    folder.checkpoint.unlink()
    with pytest.raises(UserError, match=r"checkpoint.safetensors is missing, but the run has 2 epochs in its log"):
        trainer_in(tmp_path, METHODS["pars"]).restore()
    assert len(folder.read_metrics()) == 2
    folder.metrics.unlink()
    folder.model.touch()
    with pytest.raises(UserError, match=r"checkpoint.safetensors is missing, but the run has a trained model"):
        trainer_in(tmp_path, METHODS["pars"]).restore()
