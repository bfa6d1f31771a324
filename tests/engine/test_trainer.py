"""The loop: what it minimizes, what it may not see, what it writes, and the seam for other methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

from engine.helpers import N_CLASSES, SHORT, Recorder, assert_identical, make_trainer, network, toy, views
from pars.data import Dataset
from pars.engine import RunFolder, TrainConfig, Trainer, predict_proba
from pars.engine.batches import Order
from pars.engine.checkpoint import load_tensors
from pars.errors import UserError
from pars.losses import cross_entropy
from pars.method_api import Draw, Losses, Method, Stage, Step, Task
from pars.methods import PARS, PARSPaper, Supervised

HELD = np.arange(60) % 5 == 0
SNAPSHOT = [0.99788, 0.785014, 0.038812, 0.461554, 0.034067, 0.094075]


@dataclass(frozen=True, kw_only=True)
class Spy(Method):
    """Plain training that tells of every step."""

    tell: Callable[[Step], None]
    epochs_first: int = 2

    def stages(self, task: Task) -> tuple[Stage, ...]:
        rest = task.epochs - self.epochs_first
        return (
            Stage("first", self.epochs_first, self.step),
            Stage("second", rest, self.step, {"unlabeled": Draw("all", 2.0)}),
        )

    def step(self, at: Step) -> Losses:
        self.tell(at)
        return {"ce": cross_entropy(at.net(at.batch.weak), at.batch.labels).mean()}


@dataclass(frozen=True, kw_only=True)
class Peers(Method):
    """Two networks, each learning from its own loss, and a count per row of how often it was seen."""

    networks: ClassVar[int] = 2

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return (Stage("train", task.epochs, self.step),)

    def initial_state(self, task: Task) -> dict[str, Tensor]:
        return {"seen": torch.zeros(task.n_rows, dtype=torch.int64), "ones": torch.ones(task.n_rows, task.n_classes)}

    def step(self, at: Step) -> Losses:
        at.state["seen"][at.batch.rows] += 1  # in place
        at.state["steps"] = at.state.get("steps", torch.zeros(())) + 1  # a new tensor, one that was not there
        losses = {}
        for index, net in enumerate(at.nets):
            logits = net(at.batch.view("weak", index))
            losses[f"ce{index}"] = (index + 1) * cross_entropy(logits, at.batch.labels).mean()
        return losses


def naive_sgd(data: Dataset, config: TrainConfig) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Plain training once more: SGD with momentum, decay and averaging written out."""
    module = network()
    parameters = list(module.parameters())
    velocity: list[Tensor] = []
    average = [p.detach().clone() for p in parameters]
    steps = math.ceil(len(data.train) / config.batch_size)
    order = Order(np.arange(len(data.train)), 0, "labeled", len(data.train), steps)
    for epoch in range(config.epochs):
        for index in range(steps):
            rows = order.batch(epoch, index)
            logits = module(torch.from_numpy(data.train.inputs[rows]))
            loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(data.train.labels[rows]))
            gradients = torch.autograd.grad(loss, parameters)
            t = (epoch * steps + index) / (config.epochs * steps)
            rate = config.lr * math.cos(7 * math.pi * t / 16)
            with torch.no_grad():
                decayed = [g + config.weight_decay * p for g, p in zip(gradients, parameters, strict=True)]
                if velocity:
                    velocity = [config.momentum * v + g for v, g in zip(velocity, decayed, strict=True)]
                else:
                    velocity = decayed
                for p, v, mean in zip(parameters, velocity, average, strict=True):
                    p.sub_(rate * v)
                    mean.mul_(config.ema).add_((1 - config.ema) * p)
    names = [name for name, _ in module.named_parameters()]
    return module.state_dict(), dict(zip(names, average, strict=True))


def test_plain_training_is_the_textbook_loop() -> None:
    trainer = make_trainer(Supervised(loss="ce"), plain_views=True)
    trainer.run()
    raw, average = naive_sgd(toy(), SHORT)
    for name, tensor in trainer.nets[0].module.state_dict().items():
        torch.testing.assert_close(tensor, raw[name], rtol=1e-4, atol=1e-5)
    for name, tensor in trainer.nets[0].average.named_parameters():
        torch.testing.assert_close(tensor.data, average[name], rtol=1e-4, atol=1e-5)


def test_the_first_losses_of_a_fixed_seed_have_not_changed() -> None:
    # A snapshot, not a truth: it guards refactoring. Whoever changes what a step computes or draws, changes it here.
    seen = Recorder()
    make_trainer(PARSPaper(warm_up=1, tau=0.5), callback=seen).run()
    trace = [(name, value) for line in seen.lines[:2] for name, value in line["losses"].items()]
    assert [name for name, _ in trace] == ["raw", "raw", "raw_negative", "pseudo", "pseudo_negative", "balance"]
    assert_allclose([value for _, value in trace], SNAPSHOT, rtol=1e-4)


@pytest.mark.parametrize(
    "method", [PARS(warm_up=1, tau=0.5), PARSPaper(warm_up=1, tau=0.5), Supervised()], ids=["pars", "paper", "plain"]
)
def test_true_labels_and_the_test_set_do_not_influence_training(method: Method) -> None:
    data = toy(unlabeled=10)
    assert data.train.true_labels is not None
    assert data.test is not None
    rng = np.random.default_rng(1)
    swapped = replace(
        data,
        train=replace(data.train, true_labels=rng.permutation(data.train.true_labels)),
        test=replace(data.test, labels=rng.permutation(data.test.labels)),
    )
    blind = replace(data, train=replace(data.train, true_labels=None), test=None)
    outcomes, curves = [], []
    for variant in (data, swapped, blind):
        seen = Recorder()
        trainer = make_trainer(method, data=variant, callback=seen, held_out=HELD)
        trainer.run()
        outcomes.append({name: t for name, t in trainer.tensors().items() if not name.startswith("meter.")})
        curves.append([line.get("test") for line in seen.lines])
    assert_identical(outcomes[0], outcomes[1])
    assert_identical(outcomes[0], outcomes[2])
    assert curves[0] != curves[1]  # but metrics do
    assert curves[2] == [None] * 4


def test_the_labeled_batch_has_labeled_rows_only_and_held_out_rows_are_nowhere() -> None:
    raw: set[int] = set()
    more: set[int] = set()

    def tell(at: Step) -> None:
        assert (at.batch.labels >= 0).all()
        assert torch.equal(at.batch.labels, labels[at.batch.rows])
        raw.update(at.batch.rows.tolist())
        if "unlabeled" in at.batches:
            more.update(at.batches["unlabeled"].rows.tolist())
            assert torch.equal(at.batches["unlabeled"].labels, labels[at.batches["unlabeled"].rows])

    data = toy(unlabeled=25)
    labels = torch.from_numpy(data.train.labels)
    make_trainer(Spy(tell=tell), data=data, held_out=HELD).run()
    kept = set(np.flatnonzero(~HELD).tolist())
    assert raw == kept & set(range(35))
    assert more == kept


def test_a_step_knows_how_far_the_run_and_its_stage_are() -> None:
    seen: list[tuple[float, float, bool]] = []
    trainer = make_trainer(
        Spy(tell=lambda at: seen.append((at.progress, at.stage_progress, "unlabeled" in at.batches)), epochs_first=1),
        data=toy(32),
        config=replace(SHORT, epochs=3),
    )
    trainer.run()
    assert [s[0] for s in seen] == pytest.approx([0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6])
    assert [s[1] for s in seen] == pytest.approx([0, 1 / 2, 0, 1 / 4, 2 / 4, 3 / 4])
    assert [s[2] for s in seen] == [False, False, True, True, True, True]


def test_views_are_drawn_anew_for_each_name_number_batch_and_step() -> None:
    drawn: list[Tensor] = []

    def tell(at: Step) -> None:
        for batch in at.batches.values():
            assert batch.weak is batch.view("weak", 0)  # made once
            drawn.extend(view[:12] == 0 for view in (batch.weak, batch.view("weak", 1), batch.strong))

    make_trainer(Spy(tell=tell), config=replace(SHORT, epochs=3)).run()
    masks = {tuple(mask.flatten().tolist()) for mask in drawn}  # of the weak views' 48 values some 5 are dropped
    assert len(masks) == len(drawn) == 3 * (3 * 4 + 4)


def test_a_method_may_train_two_networks_and_keep_something_per_row() -> None:
    trainer = make_trainer(Peers(), data=toy(unlabeled=10))
    before = [[p.clone() for p in net.module.parameters()] for net in trainer.nets]
    trainer.run()
    for net, old in zip(trainer.nets, before, strict=True):
        assert all(not torch.equal(p, q) for p, q in zip(net.module.parameters(), old, strict=True))
    first, second = (net.module.state_dict()["head.weight"] for net in trainer.nets)
    assert not torch.equal(first, second)
    assert trainer.state["seen"].tolist() == [4] * 50 + [0] * 10
    assert trainer.state["steps"] == 16
    mean = (
        sum(predict_proba([net.average], trainer.inputs, trainer.views.test_time_views, "cpu") for net in trainer.nets)
        / 2
    )
    torch.testing.assert_close(trainer.predict_proba(trainer.inputs), mean)


def test_the_number_of_networks_must_fit_the_method() -> None:
    with pytest.raises(UserError, match=r"Peers trains 2 network\(s\), 1 were given"):
        Trainer(method=Peers(), data=toy(), networks=[network()], views=views(), config=SHORT, seed=0)


def test_rows_without_any_label_cannot_be_trained_on() -> None:
    with pytest.raises(UserError, match="no labeled rows"):
        make_trainer(Supervised(), data=toy(unlabeled=60))


def test_gradients_are_clipped_to_a_norm() -> None:
    def moved(clip: float | None) -> float:
        config = TrainConfig(epochs=1, batch_size=60, lr=1.0, weight_decay=0, momentum=0, grad_clip=clip)
        trainer = make_trainer(Supervised(), config=config)
        before = torch.cat([p.detach().flatten().clone() for p in trainer.nets[0].module.parameters()])
        trainer.run()
        after = torch.cat([p.detach().flatten() for p in trainer.nets[0].module.parameters()])
        return float((after - before).norm())

    assert moved(None) > 0.2
    assert moved(0.01) == pytest.approx(0.01, rel=1e-3)


def test_the_metrics_say_what_was_done(tmp_path: Path) -> None:
    config = replace(SHORT, epochs=6, evaluate_every=4, checkpoint_every=4)
    method = PARS(warm_up=3, raw_weight="one", trust="full", balance_memory=0.0)
    trainer = make_trainer(method, data=toy(unlabeled=12), config=config, folder=tmp_path, held_out=HELD)
    trainer.run()
    lines = RunFolder(tmp_path).read_metrics()
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["stage"] for line in lines] == ["warm-up"] * 3 + ["main"] * 3
    assert [("test" in line, "holdout" in line) for line in lines] == [(e in (3, 4, 6),) * 2 for e in range(1, 7)]
    labeled = 38  # of 48 labeled rows, ten are held out
    steps = 3
    assert [line["steps"] for line in lines] == [steps * e for e in range(1, 7)]
    assert [line["images"] for line in lines] == [labeled * e for e in (1, 2, 3)] + [
        labeled * 3 + (labeled + 3 * labeled) * e for e in (1, 2, 3)
    ]
    cost = trainer.learners[0].cost
    assert lines[-1]["flop"] == labeled * (15 * cost.training + 9 * cost.forward)
    assert lines[-1]["selection"]["raw"]["rows"] == labeled
    assert lines[-1]["selection"]["pseudo"]["rows"] == 3 * labeled
    names = ["checkpoint.safetensors", "dynamics.safetensors", "metrics.jsonl", "model.safetensors"]
    names += ["rows-main.safetensors", "rows-warm-up.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_accuracies_are_those_of_the_raw_and_averaged_weights() -> None:
    seen = Recorder()
    data = toy()
    trainer = make_trainer(Supervised(), data=data, callback=seen, held_out=HELD)
    trainer.run()
    assert data.test is not None
    for name, rows, labels in (
        ("test", data.test.inputs, data.test.labels),
        ("holdout", data.train.inputs[HELD], data.train.labels[HELD]),
    ):
        for weights, module in (("raw", trainer.nets[0].module), ("ema", trainer.nets[0].average)):
            module.eval()
            predicted = module(torch.from_numpy(rows)).argmax(1).numpy()
            assert seen.lines[-1][name][weights] == pytest.approx(100 * np.mean(predicted == labels))


def test_the_row_files_hold_the_predictions_of_the_averaged_network(tmp_path: Path) -> None:
    trainer = make_trainer(PARS(warm_up=2), folder=tmp_path)
    trainer.run()
    tensors, note = load_tensors(RunFolder(tmp_path).rows("main"))
    p = trainer.nets[0].average(trainer.inputs).softmax(1)
    assert note == {"stage": "main", "epoch": 4}
    assert torch.equal(tensors["predicted"], p.argmax(1))
    torch.testing.assert_close(tensors["confidence"], p.amax(1))
    torch.testing.assert_close(tensors["given_label_confidence"], p[torch.arange(60), trainer.labels])
    early, _ = load_tensors(RunFolder(tmp_path).rows("warm-up"))
    assert not torch.equal(early["confidence"], tensors["confidence"])


def test_the_model_file_holds_both_weights_and_what_is_needed_to_use_them(tmp_path: Path) -> None:
    trainer = make_trainer(Peers(), folder=tmp_path)
    trainer.run()
    tensors, note = load_tensors(RunFolder(tmp_path).model)
    expected: dict[str, Tensor] = {}
    for index, net in enumerate(trainer.nets):
        expected |= {f"raw.{index}.{name}": t for name, t in net.module.state_dict().items()}
        expected |= {f"average.{index}.{name}": t for name, t in net.average.state_dict().items()}
    assert_identical(tensors, expected)
    assert (note["networks"], note["epochs"], note["classes"]) == (2, 4, ["a", "b", "c"])
    assert (note["input_shape"], len(note["classes"])) == ([4], N_CLASSES)


def test_wrong_labels_hurt_plain_training_more_than_pars() -> None:
    config = TrainConfig(epochs=40, batch_size=32, lr=0.1, weight_decay=0.0, ema=0.9)
    accuracies = []
    for method in (Supervised(), PARS()):
        seen = Recorder()
        data = toy(200, noise=0.6, spread=0.6)
        make_trainer(method, data=data, config=config, callback=seen, plain_views=True).run()
        accuracies.append(seen.lines[-1]["test"]["ema"])
    assert accuracies[1] > accuracies[0] + 5
    assert accuracies[1] > 80
