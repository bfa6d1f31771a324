"""What holds for every method of the registry, whatever it does."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine.helpers import Recorder, assert_identical, make_trainer, toy
from engine.test_resume import StopAt, outcome

from pars import augment
from pars.data import Dataset, Split
from pars.engine import Interrupted, TrainConfig, Trainer, load_tensors
from pars.methods import REGISTRY, by_name
from pars.models import ModelConfig, build_model

EPOCHS = 6  # enough for every stage of every method to have one
CONFIG = TrainConfig(epochs=EPOCHS, batch_size=16, lr=0.05, ema=0.9)
HELD = np.arange(60) % 6 == 0
LOSSES = [name for name, entry in REGISTRY.items() if entry.file == "robust_losses.py"]
every_method = pytest.mark.parametrize("name", REGISTRY)
every_algorithm = pytest.mark.parametrize("name", [name for name in REGISTRY if name not in LOSSES[1:]])  # one loss


def trainer_of(name: str, data: Dataset | None = None, **options: Any) -> Trainer:
    settings: dict[str, Any] = {"config": CONFIG, "held_out": HELD} | options
    return make_trainer(by_name(name), data=toy(unlabeled=9) if data is None else data, **settings)


@every_method
def test_it_trains_on_feature_vectors_with_unlabeled_and_held_out_rows(name: str) -> None:
    seen = Recorder()
    trainer = trainer_of(name, callback=seen)
    before = [{key: t.clone() for key, t in net.module.state_dict().items()} for net in trainer.nets]
    trainer.run()
    assert len(seen.lines) == EPOCHS
    assert all(math.isfinite(value) for line in seen.lines for value in line["losses"].values())
    for net, old in zip(trainer.nets, before, strict=True):
        assert all(tensor.isfinite().all() for tensor in net.module.state_dict().values())
        assert any(not torch.equal(old[key], t) for key, t in net.module.state_dict().items())


@every_algorithm
def test_it_trains_on_images(name: str) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=48)
    shades = np.array([40, 120, 200])[labels][:, None, None, None]
    inputs = np.clip(shades + 30 * rng.standard_normal((48, 3, 8, 8)), 0, 255).astype(np.uint8)
    data = Dataset("images", Split(inputs, labels, labels), None, ("a", "b", "c"))
    method = by_name(name)
    networks = [
        build_model(ModelConfig(name="small_cnn", width=4), (3, 8, 8), 3, seed=index)
        for index in range(method.networks)
    ]
    views = augment.build_views(augment.ViewsConfig(), image=True, shape=(3, 8, 8), mean=(0.5,) * 3, std=(0.25,) * 3)
    trainer = Trainer(method=method, data=data, networks=networks, views=views, config=CONFIG, seed=0)
    trainer.run()
    assert all(tensor.isfinite().all() for tensor in trainer.tensors().values() if tensor.is_floating_point())


@every_method
def test_stopped_and_resumed_it_ends_in_the_same_bytes(name: str, tmp_path: Path) -> None:
    """Both networks of a method take every step together: the middle of an epoch is that of either network's."""
    seen = Recorder()
    whole = trainer_of(name, folder=tmp_path / "whole", callback=seen)
    whole.run()
    steps = whole.steps
    assert {key.split(".")[1] for key in whole.tensors() if key.startswith("raw.")} == {
        *map(str, range(len(whole.nets)))
    }
    stages = [line["stage"] for line in seen.lines]
    first = [stages.index(stage) for stage in dict.fromkeys(stages)]
    # In the middle of the first epoch of each stage, in the run's last epoch, and after an epoch's last step.
    for step in sorted({*(epoch * steps + steps // 2 for epoch in first), EPOCHS * steps - 1, 2 * steps}):
        folder = tmp_path / str(step)
        with pytest.raises(Interrupted):
            trainer_of(name, folder=folder, callback=StopAt(step)).run()
        resumed = trainer_of(name, folder=folder)
        resumed.restore()
        resumed.run()
        assert_identical(resumed.tensors(), whole.tensors())
        assert outcome(folder) == outcome(tmp_path / "whole")


@every_algorithm
def test_it_sees_no_true_label_no_test_row_and_no_held_out_row(name: str) -> None:
    data = toy(unlabeled=9)
    rng = np.random.default_rng(1)
    train, test = data.train, data.test
    assert test is not None and train.true_labels is not None  # noqa: PT018
    mixed = rng.permutation(60)
    other = Dataset(
        "toy",
        Split(
            np.where(HELD[:, None], -train.inputs, train.inputs),
            np.where(HELD & (train.labels >= 0), (train.labels + 1) % 3, train.labels),
            train.true_labels[mixed],
        ),
        Split(-test.inputs, test.labels[::-1].copy()),
        data.classes,
    )
    runs = [trainer_of(name, data=which) for which in (data, other)]
    for trainer in runs:
        trainer.run()
    used = torch.from_numpy(np.flatnonzero(~HELD))
    ours, theirs = (
        {
            key: tensor[used] if key.startswith(("state.", "dynamics.")) and tensor.shape[:1] == (60,) else tensor
            for key, tensor in trainer.tensors().items()
            if ".running_" not in key or not key.startswith("average.")
        }
        for trainer in runs
    )
    assert_identical(ours, theirs)


@every_algorithm
def test_what_it_keeps_and_says_of_each_row_has_a_row_per_row(name: str, tmp_path: Path) -> None:
    trainer = trainer_of(name, folder=tmp_path)
    trainer.run()
    evidence = trainer.method.evidence(trainer.state)
    assert all(len(tensor) == 60 or tensor.shape == (3, 3) for tensor in evidence.values())
    rows = sorted(tmp_path.glob("rows*"), key=lambda path: path.stat().st_mtime)
    tensors, _ = load_tensors(rows[-1])
    assert {key.removeprefix("evidence.") for key in tensors if key.startswith("evidence.")} == set(evidence)


@every_algorithm
def test_its_cost_is_what_its_entry_says(name: str) -> None:
    """Network passes of the costliest stage, per labeled row and epoch; how rows are split may move it by a third."""
    seen = Recorder()
    data = toy(96)
    trainer = make_trainer(by_name(name), data=data, config=replace(CONFIG, epochs=12), callback=seen)
    work: list[tuple[int, int]] = [(0, 0)]
    log = seen.epoch

    def epoch(line: dict[str, Any]) -> None:
        log(line)
        work.append((sum(net.forwards for net in trainer.nets), sum(net.backwards for net in trainer.nets)))

    seen.epoch = epoch  # type: ignore[method-assign]
    trainer.run()
    stages = [line["stage"] for line in seen.lines]
    costs: dict[str, list[float]] = {}
    for stage, (f0, b0), (f1, b1) in zip(stages, work[:-1], work[1:], strict=True):
        costs.setdefault(stage, []).append(((b1 - b0) + (f1 - f0) / 3) / 96)
    costliest = max(sum(each) / len(each) for each in costs.values())
    claimed = REGISTRY[name].cost
    assert claimed / 1.35 <= costliest <= claimed * 1.35
