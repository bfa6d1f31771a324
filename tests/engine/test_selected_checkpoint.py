"""Which checkpoint a run ends with, by held-out given labels."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.helpers import SHORT, Recorder, assert_identical, make_trainer, toy
from pars.engine import RunFolder, Trainer
from pars.engine.checkpoint import load_tensors, prefers_earlier, save_tensors
from pars.errors import UserError
from pars.losses import cross_entropy
from pars.method_api import Losses, Method, Stage, Step, Task
from pars.methods import Supervised

HELD = np.arange(60) % 3 == 0


@dataclass(frozen=True, kw_only=True)
class Spoilt(Method):
    """Learns, then (unless it goes on learning) unlearns: its second stage is taught the next class."""

    shift: int = 1

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return (
            Stage("learn", 4, lambda at: self.taught(at, 0)),
            Stage("spoil", task.epochs - 4, lambda at: self.taught(at, self.shift)),
        )

    def taught(self, at: Step, shift: int) -> Losses:
        return {"ce": cross_entropy(at.net(at.batch.weak), (at.batch.labels + shift) % 3).mean()}


def averaged_weights(trainer: Trainer) -> dict[str, Tensor]:
    """A copy of the averaged weights, by the names of a model file."""
    named = {name: t for index, of in enumerate(trainer.learners) for name, t in of.weights(index).items()}
    return {name: tensor.clone() for name, tensor in named.items() if name.startswith("average.")}


class Weights(Recorder):
    """Keeps a copy of the averaged weights of each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.trainer: Trainer | None = None
        self.copies: list[dict[str, Tensor]] = []

    def epoch(self, line: dict[str, Any]) -> None:
        super().epoch(line)
        assert self.trainer is not None
        self.copies.append(averaged_weights(self.trainer))


def watched(method: Method, select: str, epochs: int = 8, folder: Path | None = None) -> tuple[Trainer, Weights]:
    callback = Weights()
    config = replace(SHORT, epochs=epochs, batch_size=8, ema=0.5, select=select)  # type: ignore[arg-type]
    data = toy(noise=0.1, spread=0.5)
    callback.trainer = make_trainer(method, data=data, config=config, callback=callback, held_out=HELD, folder=folder)
    return callback.trainer, callback


def test_the_last_weights_stay_unless_asked_otherwise() -> None:
    trainer, seen = watched(Spoilt(), "last")
    trainer.run()
    assert trainer.selected is None
    assert_identical(averaged_weights(trainer), seen.copies[-1])
    assert not any("selected" in line for line in seen.lines)


def test_a_stage_that_unlearns_is_undone() -> None:
    trainer, seen = watched(Spoilt(), "best-stage")
    trainer.run()
    assert seen.lines[3]["holdout"]["ema"] > seen.lines[-1]["holdout"]["ema"]
    assert trainer.selected is not None
    assert (trainer.selected.stage, trainer.selected.epoch) == ("learn", 4)
    assert_identical(averaged_weights(trainer), seen.copies[3])
    assert [line.get("selected") for line in seen.lines] == [None, None, None, 4, None, None, None, 4]


def test_a_stage_that_goes_on_learning_is_selected() -> None:
    trainer, seen = watched(Spoilt(shift=0), "best-stage")
    trainer.run()
    assert trainer.selected is not None
    assert (trainer.selected.stage, trainer.selected.epoch) == ("spoil", 8)
    assert_identical(averaged_weights(trainer), seen.copies[-1])


def test_of_all_epochs_the_last_best_one_is_selected() -> None:
    trainer, seen = watched(Spoilt(), "best-epoch")
    trainer.run()
    accuracies = [line["holdout"]["ema"] for line in seen.lines]
    best = max(range(8), key=lambda epoch: (accuracies[epoch], epoch))
    assert best < 7
    assert_identical(averaged_weights(trainer), seen.copies[best])
    assert seen.lines[-1]["selected"] == best + 1


def test_selecting_has_no_effect_on_training() -> None:
    (plain, _), (selecting, _) = watched(Spoilt(), "last"), watched(Spoilt(), "best-epoch")
    plain.run()
    selecting.run()
    same = [name for name in plain.tensors() if not name.startswith("average.")]
    assert_identical({n: plain.tensors()[n] for n in same}, {n: selecting.tensors()[n] for n in same})


def test_the_model_file_holds_the_selected_checkpoint(tmp_path: Path) -> None:
    trainer, seen = watched(Spoilt(), "best-stage", folder=tmp_path / "run")
    trainer.run()
    tensors, note = load_tensors(RunFolder(tmp_path / "run").model)
    assert note["selected"] == {"epoch": 4, "stage": "learn"}
    assert_identical({n: t for n, t in tensors.items() if n.startswith("average.")}, seen.copies[3])


def test_without_held_out_rows_nothing_can_be_selected() -> None:
    with pytest.raises(UserError, match=r"train.select is 'best-stage', which needs .*data.holdout above 0"):
        make_trainer(Supervised(), config=replace(SHORT, select="best-stage"))


masks = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200)


@given(masks)
def test_a_stage_is_undone_if_it_lost_more_rows_than_luck_would_explain(pairs: list[tuple[bool, bool]]) -> None:
    before, after = (torch.tensor(column) for column in zip(*pairs, strict=True))
    differences = [int(b) - int(a) for b, a in pairs if a != b]
    # If each row that changed were as likely lost as won, their sum would have this deviation; one row is luck.
    deviation = sum(d * d for d in differences) ** 0.5
    assert prefers_earlier(before, after, "best-stage") == (sum(differences) - 1 > deviation)
    assert prefers_earlier(before, after, "best-stage", sigmas=2) == (sum(differences) - 1 > 2 * deviation)
    assert prefers_earlier(before, after, "best-epoch") == (before.sum() > after.sum())


def damaged(note: dict[str, Any], tensors: dict[str, Tensor], how: str) -> None:
    match how:
        case "epoch":
            note["selected"]["epoch"] = 99
        case "stage":
            note["selected"]["stage"] = 3
        case "rows":
            tensors["selected.correct"] = torch.zeros(7, dtype=torch.bool)
        case "missing":
            del tensors["selected.average.0.head.bias"]
        case "shape":
            tensors["selected.average.0.head.bias"] = torch.zeros(9)


@pytest.mark.parametrize("how", ["epoch", "stage", "rows", "missing", "shape"])
def test_a_checkpoint_that_selected_something_else_is_refused(how: str, tmp_path: Path) -> None:
    trainer, _ = watched(Spoilt(), "best-stage", folder=tmp_path / "run")
    trainer.run()
    path = RunFolder(tmp_path / "run").checkpoint
    tensors, note = load_tensors(path)
    damaged(note, tensors, how)
    save_tensors(path, tensors, json.loads(json.dumps(note)))
    again, _ = watched(Spoilt(), "best-stage", folder=tmp_path / "run")
    with pytest.raises(UserError, match="does not fit its run: its selected checkpoint"):
        again.restore()
