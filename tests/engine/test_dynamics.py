"""Training dynamics against a loop in float64, and that recording them changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from engine.helpers import N_CLASSES, SHORT, Recorder, assert_identical, make_trainer, toy, weights
from engine.test_trainer import HELD, Peers
from pars.engine import Callback, RunFolder, Trainer, load_tensors
from pars.engine.batches import EVALUATION_BATCH
from pars.engine.dynamics import Dynamics, spans
from pars.errors import UserError
from pars.method_api import Method
from pars.methods import PARS, Supervised

LONG = replace(SHORT, epochs=9)
Floats = npt.NDArray[np.float64]


class Answers(Callback):
    """Keeps what the averaged networks answer to the weak views of each epoch: [epochs, n, K]."""

    def __init__(self) -> None:
        self.trainer: Trainer | None = None
        self.found: list[Floats] = []

    def epoch(self, line: dict[str, Any]) -> None:
        assert self.trainer is not None
        feed, rows = self.trainer.feed, torch.arange(len(self.trainer.labels))
        # All rows are one batch of this small problem.
        view = feed.view(rows, "view/dynamics/weak", "weak", line["epoch"] - 1, 0)
        with torch.no_grad():
            answers = [net.average(view).double().softmax(dim=1).numpy() for net in self.trainer.nets]
        self.found.append(np.mean(answers, axis=0))


def recorded(method: Method, **changes: Any) -> tuple[Trainer, Floats]:
    callback = Answers()
    trainer = make_trainer(method, callback=callback, held_out=HELD, **changes)
    assert len(trainer.labels) <= EVALUATION_BATCH
    callback.trainer = trainer
    trainer.run()
    return trainer, np.stack(callback.found)


def by_loops(answers: Floats, labels: npt.NDArray[np.int64], first: int) -> dict[str, Floats]:
    """Of each labeled row, one epoch after the other."""
    n = len(labels)
    out = {name: np.zeros(n) for name in ("margin_early_mean", "margin_late_mean", "margin_late_std", "p_mean")}
    out |= {name: np.zeros(n) for name in ("p_std", "agree", "forgotten", "first_agree")}
    for i in np.flatnonzero(labels >= 0):
        margins, of_label, agreed = [], [], []
        for p in answers[:, i]:
            others = np.delete(p, labels[i])
            margins.append(min(20, max(-20, float(np.log(p[labels[i]]) - np.log(others.max())))))
            of_label.append(p[labels[i]])
            agreed.append(p[labels[i]] > others.max())
        out["margin_early_mean"][i] = np.mean(margins[:first])
        out["margin_late_mean"][i], out["margin_late_std"][i] = np.mean(margins[first:]), np.std(margins[first:])
        out["p_mean"][i], out["p_std"][i], out["agree"][i] = np.mean(of_label), np.std(of_label), np.mean(agreed)
        out["forgotten"][i] = sum(before and not now for before, now in pairwise(agreed))
        out["first_agree"][i] = agreed.index(True) + 1 if any(agreed) else 0
    return out


@pytest.mark.parametrize(
    ("method", "first"),
    [(PARS(warm_up=4, tau=0.5), 4), (Supervised(), 3), (Peers(), 3)],
    ids=["pars", "ce", "two nets"],
)
def test_dynamics_are_those_of_a_loop_over_epochs(method: Method, first: int) -> None:
    data = toy(unlabeled=6)
    trainer, answers = recorded(method, data=data, config=LONG)
    assert trainer.dynamics is not None
    rows = {name: tensor.numpy() for name, tensor in trainer.dynamics.rows(trainer.labels, HELD).items()}
    for name, expected in by_loops(answers, data.train.labels, first).items():
        assert_allclose(rows[name], expected, atol=2e-4, err_msg=name)
    late = answers[9 - -(-2 * (9 - first) // 3) :]
    growing = np.arange(1, len(late) + 1)
    assert_allclose(rows["late"], np.average(late, axis=0, weights=growing), atol=2e-3)
    assert_allclose(rows["early"], answers[first // 2 : first].mean(axis=0), atol=2e-3)
    assert_array_equal(rows["given"], data.train.labels)
    assert_array_equal(rows["held_out"], HELD)


@pytest.mark.parametrize("method", [PARS(warm_up=2, tau=0.5), Supervised()], ids=["pars", "ce"])
@pytest.mark.parametrize("evaluate_every", [1, 3])
def test_recording_does_not_change_a_bit_of_training(method: Method, evaluate_every: int) -> None:
    lines, found = [], []
    for every in (0, 1, 2):
        callback = Recorder()
        config = replace(SHORT, dynamics_every=every, evaluate_every=evaluate_every)
        trainer = make_trainer(method, config=config, callback=callback, held_out=HELD, dropout=0.3)
        trainer.run()
        assert (trainer.dynamics is None) == (every == 0)
        lines.append(callback.lines)
        found.append(weights(trainer))
    assert lines[0] == lines[1] == lines[2]
    assert_identical(found[0], found[1])
    assert_identical(found[0], found[2])


def test_the_file_holds_what_the_trainer_holds(tmp_path: Path) -> None:
    trainer = make_trainer(PARS(warm_up=2, tau=0.5), folder=tmp_path / "run", held_out=HELD)
    trainer.run()
    tensors, note = load_tensors(RunFolder(tmp_path / "run").dynamics)
    assert trainer.dynamics is not None
    assert_identical(tensors, trainer.recorded())
    assert note == {"epochs": 4, "first": 2, "early": [1, 2], "late": [2, 4]}


def test_without_recording_there_is_no_file(tmp_path: Path) -> None:
    make_trainer(Supervised(), config=replace(SHORT, dynamics_every=0), folder=tmp_path / "run").run()
    assert not RunFolder(tmp_path / "run").dynamics.exists()


def test_a_look_now_and_then_never_misses_the_end_of_a_span() -> None:
    when = spans([7, 13])
    looked = [epoch for epoch in range(20) if Dynamics(1, 2, when, 5).is_due(epoch)]
    assert looked == [4, 6, 9, 14, 19]
    assert any(epoch in when.early for epoch in looked)
    assert any(epoch in when.late for epoch in looked)


@pytest.mark.parametrize("stages", [[1], [2], [3], [1, 1], [5, 1], [1, 9], [30], [10, 10, 10]])
def test_every_run_has_late_epochs_and_none_is_early_and_late(stages: list[int]) -> None:
    when = spans(stages)
    assert len(when.late) >= 1
    assert when.late.stop == sum(stages)
    assert not set(when.early) & set(when.late)
    assert when.early.stop == when.first <= when.late.start


def test_a_row_costs_41_bytes_and_4_per_class() -> None:
    size: Callable[[int], int] = lambda n: sum(  # noqa: E731
        tensor.nbytes for name, tensor in Dynamics(n, N_CLASSES, spans([4]), 1).tensors.items() if name != "epochs"
    )
    assert size(100) == 100 * (41 + 4 * N_CLASSES)


def test_a_negative_period_is_refused() -> None:
    with pytest.raises(UserError, match=r"train.dynamics_every is -1, expected 0 \(none\)"):
        replace(SHORT, dynamics_every=-1)
