"""What a stage may ask of the engine beyond its step: rows, fresh weights, parts, curves, learned rows, notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor, nn

from engine.helpers import SHORT, Recorder, assert_identical, make_trainer, network, toy, views
from engine.test_resume import STEPS, StopAt, outcome, trainer_in
from engine.test_trainer import HELD
from pars.engine import Interrupted, TrainConfig, Trainer, load_tensors
from pars.errors import UserError
from pars.losses import cross_entropy, reduce
from pars.method_api import Draw, Epoch, Losses, Method, Stage, State, Step, Task


def ce(at: Step) -> Losses:
    return {"ce": reduce.mean(cross_entropy(at.net(at.batch.weak), at.batch.labels))}


@dataclass(frozen=True, kw_only=True)
class Staged(Method):
    """Stages as given."""

    laid: tuple[Stage, ...]
    start: Mapping[str, Tensor] = field(default_factory=dict)

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return self.laid

    def initial_state(self, task: Task) -> State:
        return {name: tensor.clone() for name, tensor in self.start.items()}

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        return state


@dataclass(frozen=True, kw_only=True)
class Everything(Method):
    """Uses all of it at once: two networks' worth of trouble for a resume."""

    networks = 2

    def initial_state(self, task: Task) -> State:
        return {"chosen": torch.zeros(task.n_rows, dtype=torch.bool), "shift": torch.zeros(task.n_rows, task.n_classes)}

    def attachments(self, n_features: int, n_classes: int) -> Mapping[str, nn.Module]:
        return {"more": nn.Sequential(nn.Linear(n_features, 5), nn.BatchNorm1d(5), nn.Linear(5, n_classes))}

    def stages(self, task: Task) -> tuple[Stage, ...]:
        chosen = {"labeled": Draw(lambda state: state["chosen"].nonzero()[:, 0])}
        ratio = {"all": Draw("all", lambda state: float(state["chosen"].float().mean()))}
        adam = {"optimizer": "adam", "lr": 0.01, "schedule": "cosine"}
        return (
            Stage("first", 1, self.step),
            Stage("head", 1, self.step, ratio, self.choose, restart="head", trains="head", train=adam),
            Stage("anew", task.epochs - 2, self.step, chosen | ratio, self.choose, restart="all"),
        )

    def choose(self, epoch: Epoch) -> None:
        seen = epoch.sweep(epoch.labeled, "weak", net=epoch.index % 2)
        epoch.state["chosen"][epoch.labeled] = seen.logits.argmax(dim=1) == epoch.given[epoch.labeled]
        epoch.state["chosen"][epoch.labeled[:2]] = True
        epoch.note(chosen=float(epoch.state["chosen"].sum()))

    def step(self, at: Step) -> Losses:
        losses = {}
        shift = at.row_parameter("shift", lr=0.5)
        for index, net in enumerate(at.nets):
            (features,), (logits,) = net.with_features(at.batch.weak)
            losses[f"own {index}"] = reduce.mean(cross_entropy(logits + shift, at.batch.labels))
            losses[f"more {index}"] = reduce.mean(cross_entropy(net.attached["more"](features), at.batch.labels))
        return losses


def test_stopped_after_any_step_a_run_that_uses_everything_ends_the_same(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"method": Everything(), "dropout": 0.2}
    whole = trainer_in(tmp_path / "whole", settings)
    whole.run()
    for step in range(1, STEPS + 1):
        folder = tmp_path / str(step)
        with pytest.raises(Interrupted):
            trainer_in(folder, settings, StopAt(step)).run()
        resumed = trainer_in(folder, settings)
        resumed.restore()
        resumed.run()
        assert_identical(resumed.tensors(), whole.tensors())
        assert outcome(folder) == outcome(tmp_path / "whole")
    assert any(name.startswith("attached.1.") for name in whole.tensors())


def snapshots(stages: tuple[Stage, ...], config: TrainConfig = SHORT) -> tuple[Trainer, list[dict[str, Tensor]]]:
    """The weights of a network before each step's update, and at the end."""
    seen: list[dict[str, Tensor]] = []

    def watched(at: Step) -> Losses:
        seen.append({name: t.detach().clone() for name, t in at.net.module.state_dict().items()})
        return ce(at)

    trainer = make_trainer(Staged(laid=tuple(replace(s, step=watched) for s in stages)), data=toy(32), config=config)
    trainer.run()
    seen.append({name: t.clone() for name, t in trainer.nets[0].module.state_dict().items()})
    return trainer, seen


def changed(a: dict[str, Tensor], b: dict[str, Tensor]) -> set[str]:
    return {name for name in a if not torch.equal(a[name], b[name])}


def test_a_restarted_network_has_fresh_weights_a_fresh_average_and_no_momentum() -> None:
    trainer, seen = snapshots((Stage("a", 2, ce), Stage("b", 2, ce, restart="all")))
    weights = {name for name in seen[0] if name.endswith("weight") and "body.1" not in name}
    assert weights <= changed(seen[3], seen[4])  # the two epochs have two steps each
    assert weights <= changed(seen[0], seen[4])  # not the weights it began with
    assert torch.equal(seen[4]["body.1.running_mean"], torch.zeros(8))
    # The first step after the restart is lr · gradient: nothing of the old momentum is in it.
    alone = network()
    alone.load_state_dict(seen[4])
    at_step = make_trainer(Staged(laid=(Stage("a", 4, ce),)), data=toy(32))
    batch = trainer.feed.batch("labeled", trainer.runner.layout.orders({}, {})["labeled"].batch(2, 0), 2, 0)
    cross_entropy(alone(batch.weak), batch.labels).mean().backward()  # type: ignore[no-untyped-call]
    rate = 0.1 * np.cos(7 * np.pi * (4 / 8) / 16)  # the curve of the run goes on
    for name, parameter in alone.named_parameters():
        assert parameter.grad is not None
        step = parameter.grad + 5e-4 * parameter.detach()
        assert_allclose(seen[5][name], (parameter - rate * step).detach(), rtol=1e-4, atol=1e-6)
    assert at_step.runner.total_steps == 8


def test_two_networks_that_restart_do_so_with_different_weights() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Two(Staged):
        networks = 2

    trainer = make_trainer(Two(laid=(Stage("a", 1, ce, restart="all"),)), config=replace(SHORT, epochs=1, lr=0.0))
    trainer.run()
    a, b = (net.module.state_dict()["head.weight"] for net in trainer.nets)
    assert not torch.equal(a, b)


@pytest.mark.parametrize(("part", "moves"), [("head", {"head.weight", "head.bias"}), ("body", {"body.0.weight"})])
def test_only_the_part_that_a_stage_trains_moves(part: Any, moves: set[str]) -> None:
    _, seen = snapshots((Stage("a", 1, ce), Stage("b", 2, ce, trains=part), Stage("c", 1, ce)))
    moved = {name for name in changed(seen[2], seen[6]) if name.endswith(("weight", "bias")) and "body.1" not in name}
    assert moved == moves
    assert {"head.weight", "body.0.weight"} <= changed(seen[6], seen[8])  # and then everything does again


def test_a_frozen_layer_of_ones_own_stays_frozen() -> None:
    own = network()
    own.get_submodule("body.0").requires_grad_(False)
    before = own.get_submodule("body.0").state_dict()["weight"].clone()
    stages = (Stage("a", 2, ce, trains="body"), Stage("b", 2, ce))
    trainer = Trainer(
        method=Staged(laid=stages), data=toy(), networks=[own], views=views(), config=SHORT, seed=0, held_out=HELD
    )
    trainer.run()
    assert torch.equal(own.get_submodule("body.0").state_dict()["weight"], before)


def test_a_stage_with_settings_of_its_own_has_a_curve_of_its_own() -> None:
    rates: list[tuple[str, float]] = []
    own = {"lr": 0.5, "schedule": "cosine", "optimizer": "adam"}
    trainer = make_trainer(
        Staged(laid=(Stage("a", 2, ce), Stage("b", 1, ce, train=own), Stage("c", 1, ce))), data=toy(32)
    )
    (learner,) = trainer.learners
    update = learner.update

    def watched(step: int, curve: Any) -> None:
        update(step, curve)
        rates.append((type(learner.optimizer).__name__, learner.optimizer.param_groups[0]["lr"]))

    learner.update = watched  # type: ignore[method-assign]
    trainer.run()
    run_curve = [0.1 * np.cos(7 * np.pi * t / 16 / 8) for t in range(8)]
    assert [kind for kind, _ in rates] == ["SGD"] * 4 + ["Adam"] * 2 + ["SGD"] * 2
    assert_allclose([rate for _, rate in rates], [*run_curve[:4], 0.5, 0.25, *run_curve[6:]], rtol=1e-12)


def test_a_method_draws_from_the_rows_it_chose_as_often_as_it_names_them() -> None:
    drawn: list[int] = []
    chosen = torch.tensor([3, 3, 3, 7])

    def step(at: Step) -> Losses:
        drawn.extend(at.batch.rows.tolist())
        assert len(at.batches["some"]) == 8
        return ce(at)

    draws = {"labeled": Draw(lambda state: state["rows"]), "some": Draw("all", lambda state: 0.5)}
    make_trainer(Staged(laid=(Stage("a", 4, step, draws),), start={"rows": chosen}), data=toy(32)).run()
    assert (drawn.count(3), drawn.count(7)) == (3 * 32, 32)  # as many rows an epoch as ever


def test_a_method_that_chooses_no_rows_is_an_error() -> None:
    none = {"labeled": Draw(lambda state: state["rows"])}
    method = Staged(laid=(Stage("a", 4, ce, none),), start={"rows": torch.zeros(0, dtype=torch.int64)})
    with pytest.raises(UserError, match="chose no rows for its batches 'labeled'"):
        make_trainer(method).run()


def test_an_optional_draw_from_no_rows_leaves_its_batches_out() -> None:
    seen: list[set[str]] = []

    def empty_in_the_second_epoch(epoch: Epoch) -> None:
        epoch.state["rows"] = torch.arange(0 if epoch.index == 1 else 5)

    def step(at: Step) -> Losses:
        seen.append(set(at.batches))
        return ce(at)

    draws = {"some": Draw(lambda state: state["rows"], optional=True)}
    stage = Stage("a", 4, step, draws, empty_in_the_second_epoch)
    make_trainer(Staged(laid=(stage,), start={"rows": torch.arange(5)}), data=toy(32)).run()
    assert seen == [{"labeled", "some"}] * 2 + [{"labeled"}] * 2 + [{"labeled", "some"}] * 4


def test_row_parameters_move_by_their_gradient_and_only_where_they_were_used() -> None:
    start, lr = torch.rand(60, 3, generator=torch.manual_seed(0)), 0.7
    seen: list[tuple[Tensor, Tensor, Tensor]] = []

    def step(at: Step) -> Losses:
        values = at.row_parameter("label", lr=lr)
        seen.append((at.batch.rows, values.detach().clone(), at.batch.labels))
        return {"own": reduce.mean((values**2).sum(dim=1)), **ce(at)}

    trainer = make_trainer(Staged(laid=(Stage("a", 1, step),), start={"label": start}), config=replace(SHORT, epochs=1))
    trainer.run()
    expected = start.double()
    for rows, values, _ in seen:
        assert_allclose(values, expected[rows], rtol=1e-6)
        expected[rows] -= lr * 2 * expected[rows] / len(rows)
    assert_allclose(trainer.state["label"], expected, rtol=1e-5)


def two_stages(before_stage: Callable[[Epoch], None]) -> Staged:
    return Staged(laid=(Stage("a", 2, ce), Stage("b", 2, ce, before_stage=before_stage, restart="all")))


def test_before_a_stage_the_networks_are_those_of_the_stage_before_it() -> None:
    seen, recorder = [], Recorder()

    def look(epoch: Epoch) -> None:
        seen.append({name: tensor.clone() for name, tensor in epoch.net.module.state_dict().items()})
        epoch.note(looked=1.0)

    make_trainer(two_stages(look), callback=recorder).run()
    alone = make_trainer(two_stages(lambda epoch: None))
    for _ in range(2):
        alone._run_epoch([])
    assert len(seen) == 1
    assert_identical(seen[0], alone.nets[0].module.state_dict())
    assert [line.get("notes") for line in recorder.lines] == [None, None, {"looked": 1.0}, None]


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_what_a_method_stores_before_a_stage_survives_a_stop(offset: int, tmp_path: Path) -> None:
    def store(epoch: Epoch) -> None:
        epoch.state["drawn"] = torch.from_numpy(epoch.rng.random(3))
        epoch.state["logits"] = epoch.sweep(epoch.rows).logits

    whole = make_trainer(two_stages(store))
    whole.run()
    with pytest.raises(Interrupted):
        make_trainer(two_stages(store), folder=tmp_path, callback=StopAt(2 * whole.steps + offset)).run()
    resumed = make_trainer(two_stages(store), folder=tmp_path)
    resumed.restore()
    resumed.run()
    assert_identical(resumed.tensors(), whole.tensors())


def passes(check: Callable[[Epoch], None], *, held_out: Any = None, unlabeled: int = 0) -> list[dict[str, Any]]:
    recorder = Recorder()
    make_trainer(
        Staged(laid=(Stage("a", 4, ce, before_epoch=check),)),
        data=toy(unlabeled=unlabeled),
        held_out=held_out,
        callback=recorder,
    ).run()
    return recorder.lines


def test_a_pass_before_an_epoch_is_what_evaluation_says_of_each_row() -> None:
    inputs = torch.from_numpy(toy().train.inputs)
    indices = []

    def check(epoch: Epoch) -> None:
        assert epoch.rows.tolist() == np.flatnonzero(~HELD).tolist()
        assert epoch.labeled.tolist() == [row for row in epoch.rows.tolist() if row < 50]
        some = epoch.rows.flip(0)
        module = epoch.net.module
        forwards = epoch.net.forwards
        seen = epoch.sweep(some, features=True)
        assert epoch.net.forwards == forwards + len(some)
        assert module.training
        module.eval()
        with torch.no_grad():
            assert_allclose(seen.logits, module(inputs[some]), rtol=1e-5, atol=1e-6)
            assert seen.features is not None
            assert_allclose(nn.functional.linear(seen.features, *module.head.parameters()), seen.logits, atol=1e-5)  # type: ignore[union-attr]
        module.train()
        weak = [epoch.sweep(some, "weak", index).logits for index in (0, 0, 1)]
        assert torch.equal(weak[0], weak[1])
        assert not torch.equal(weak[0], weak[2])
        assert epoch.sweep(some).features is None
        indices.append((epoch.index, epoch.epochs))
        epoch.note(share=epoch.index / 4)

    lines = passes(check, held_out=HELD, unlabeled=10)
    assert indices == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert [line["notes"] for line in lines] == [{"share": 0.0}, {"share": 0.25}, {"share": 0.5}, {"share": 0.75}]


def test_what_a_method_knows_of_each_row_is_kept_with_the_rows(tmp_path: Path) -> None:
    known = torch.rand(60, 3)
    make_trainer(Staged(laid=(Stage("a", 4, ce),), start={"belief": known}), folder=tmp_path).run()
    (path,) = tmp_path.glob("rows*")
    assert torch.equal(load_tensors(path)[0]["evidence.belief"], known)


def test_a_network_without_head_or_fresh_weights_is_named() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight

    def trainer(stage: Stage) -> Trainer:
        method = Staged(laid=(stage,))
        return Trainer(method=method, data=toy(), networks=[Own()], views=views(), config=SHORT, seed=0)

    with pytest.raises(UserError, match=r"Own cannot be trained by this method: it needs a network with .*features"):
        trainer(Stage("a", 4, ce, trains="head")).run()
    with pytest.raises(UserError, match=r"Own cannot be trained by this method, .* no reset_parameters"):
        trainer(Stage("a", 4, ce, restart="all")).run()


def test_stages_follow_each_other_and_empty_ones_are_left_out() -> None:
    stages = [Stage("a", 2, ce), Stage("b", 0, ce), Stage("c", 3, ce, {"all": Draw("all")})]
    runner = make_trainer(Staged(laid=tuple(stages)), config=replace(SHORT, epochs=5)).runner
    found = [
        (scheduled.stage.name, scheduled.first_epoch, list(runner.layout.orders(scheduled.stage.draws, {})))
        for scheduled in runner.schedule
    ]
    assert found == [("a", 0, ["labeled"]), ("c", 2, ["labeled", "all"])]
    assert [runner.stage_of(epoch).stage.name for epoch in range(5)] == ["a", "a", "c", "c", "c"]


def test_stages_that_do_not_add_up_are_an_error() -> None:
    with pytest.raises(UserError, match=r"\[2, 2\] epochs, the run 5"):
        make_trainer(Staged(laid=(Stage("a", 2, ce),) * 2), config=replace(SHORT, epochs=5))
