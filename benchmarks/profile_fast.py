"""Where the time of a fast PARS run goes: the network's forward and backward, or something else.

    python benchmarks/profile_fast.py --json >> results/fast-profile.jsonl       # one to two core minutes

The preset cifar10-fast on random images of CIFAR's size, so that no data is needed; nothing depends on what they show.
Warm-up and main steps take turns in one process; every figure is a share of core seconds, the sum over turns, so that a
busy machine gives the same shares.

forward, backward    of the network, the teacher's forward and the losses' few operations on the way back included
views, losses        making views of rows; the method's own arithmetic, selection and losses
optimizer, average   the update of weights; the moving average
other                drawing rows, meters, Python between
network              forward + backward: what the cores are for

`run` weighs the stages as the preset does: so many warm-up and main steps, and evaluation, passes over all rows for
the audit and predictions at the end of stages, from the measured cost of a batch of each. There `evaluation` is
forwards outside training, which `network` leaves out and `network_or_evaluation` counts.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pars import data, run
from pars.engine import Trainer, keep_freed_memory
from pars.engine.batches import EVALUATION_BATCH, Feed, Order
from pars.engine.dynamics import Dynamics
from pars.engine.evaluation import CALIBRATION_ROWS
from pars.engine.stages import ScheduledStage
from pars.noise import NoiseConfig

ROWS, CLASSES, TEST_ROWS = 4_096, 10, 1_024
CIFAR_ROWS, CIFAR_TEST = 50_000, 10_000


def images() -> data.Dataset:
    rng = np.random.default_rng(0)

    def split(n: int) -> data.Split:
        return data.Split(rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8), rng.integers(0, CLASSES, n))

    names = tuple(map(str, range(CLASSES)))
    return data.Dataset("random", split(ROWS), split(TEST_ROWS), names, (0.5,) * 3, (0.25,) * 3)


class Clock:
    """Core seconds by name. A part inside a part is taken out of the outer one."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inside: list[float] = []

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        began = time.process_time()
        self._inside.append(0.0)
        try:
            yield
        finally:
            whole = time.process_time() - began
            self.seconds[name] += whole - self._inside.pop()
            if self._inside:
                self._inside[-1] += whole

    def watch(self, owner: Any, name: str, part: str) -> None:
        """Count the time of a function."""
        plain: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(part):
                return plain(*args, **kwargs)

        setattr(owner, name, timed)


def watched(config: run.RunConfig, clock: Clock) -> Trainer:
    """A trainer whose parts are on the clock."""
    trainer = run.build_trainer(config, run.load_training_data(config, images()), None)
    for learner in trainer.learners:
        for module in (learner.net.module, learner.net.average):
            clock.watch(module, "forward", "forward")
        clock.watch(learner.optimizer, "step", "optimizer")
        clock.watch(learner.optimizer, "zero_grad", "optimizer")
    clock.watch(torch, "_foreach_lerp_", "average")  # Muon does not use it
    clock.watch(Tensor, "backward", "backward")
    clock.watch(Feed, "view", "views")
    return trainer


def steps_of(trainer: Trainer, scheduled: ScheduledStage) -> Iterator[Callable[[], None]]:
    """The steps of a stage, one after the other, as the trainer takes them."""
    for epoch in range(scheduled.first_epoch, scheduled.first_epoch + scheduled.stage.epochs):
        orders = trainer.runner.layout.orders(scheduled.stage.draws, trainer.state)
        for step in range(trainer.steps):

            def take(epoch: int = epoch, step: int = step, orders: dict[str, Order] = orders) -> None:
                trainer.epoch, trainer.step = epoch, step
                trainer._run_step(scheduled, {name: order.batch(epoch, step) for name, order in orders.items()})

            yield take


def measure(turns: int, steps: int) -> tuple[run.RunConfig, dict[str, Clock]]:
    """Core seconds of `turns` × `steps` steps of either stage, and of passes over `EVALUATION_BATCH` rows."""
    config = run.preset("cifar10-fast")(NoiseConfig(kind="symmetric", rate=0.5))
    clocks: dict[str, Clock] = {}
    one = Clock()
    trainer = watched(config, one)
    stages = {}
    for scheduled in trainer.runner.schedule:
        clock_step = scheduled.stage.step

        def losses(at: Any, plain: Any = clock_step) -> Any:
            with one.part("losses"):
                return plain(at)

        stage = replace(scheduled.stage, step=losses)
        stages[stage.name] = steps_of(trainer, replace(scheduled, stage=stage))
        clocks[stage.name] = Clock()
    clocks["dynamics"], clocks["evaluate"] = Clock(), Clock()
    rows = torch.arange(EVALUATION_BATCH)
    dynamics = Dynamics(EVALUATION_BATCH, CLASSES, trainer.dynamics.spans, 1) if trainer.dynamics else None
    for turn in range(turns + 1):
        for name, take in stages.items():
            one.seconds = defaultdict(float)
            with one.part("other"):
                for _ in range(steps if turn else 1):
                    next(take)()
            add(clocks[name], one, turn)
        one.seconds = defaultdict(float)
        with one.part("other"):
            trainer.predict_proba(trainer.inputs[rows], test_time_views=[trainer.views.plain])
        add(clocks["evaluate"], one, turn)
        one.seconds = defaultdict(float)
        if dynamics is not None:
            with one.part("other"):
                dynamics.record([net.average for net in trainer.nets], trainer.feed, trainer.labels[rows], 0)
            add(clocks["dynamics"], one, turn)
    return config, clocks


def add(to: Clock, one: Clock, turn: int) -> None:
    if turn:  # the first one warms caches
        for name, seconds in one.seconds.items():
            to.seconds[name] += seconds


def shares(seconds: dict[str, float]) -> dict[str, float]:
    total = sum(seconds.values())
    named = ("forward", "backward", "views", "losses", "optimizer", "average", "other", "evaluation")
    out = {name: round(seconds[name] / total, 4) for name in named if name in seconds}
    return {"network": round((seconds["forward"] + seconds["backward"]) / total, 4), **out}


def whole_run(config: run.RunConfig, clocks: dict[str, Clock], turns: int, steps: int) -> dict[str, float]:
    """Seconds of a run of the preset on all of CIFAR-10, from those of its parts."""
    train = config.train
    total: defaultdict[str, float] = defaultdict(float)
    per_epoch = math.ceil(CIFAR_ROWS / train.batch_size)
    warm_up = round(config.method.warm_up_share * train.epochs)  # type: ignore[attr-defined]
    for name, epochs in (("warm-up", warm_up), ("main", train.epochs - warm_up)):
        for part, seconds in clocks[name].seconds.items():
            total[part] += seconds / (turns * steps) * per_epoch * epochs
    due = {e for e in range(1, train.epochs + 1) if e % train.evaluate_every == 0} | {warm_up, train.epochs}
    recorded = {e for e in range(1, train.epochs + 1) if e % train.dynamics_every == 0} | {warm_up, train.epochs}
    tested = (2 + config.views.mirror) * CIFAR_TEST  # raw and averaged weights, the latter on mirror images too
    evaluated = len(due) * tested + len(due | recorded) * CALIBRATION_ROWS + 2 * CIFAR_ROWS  # 2 ends of stages
    for name, rows in (("evaluate", evaluated), ("dynamics", len(recorded) * CIFAR_ROWS)):
        spent = clocks[name].seconds
        total["evaluation"] += spent["forward"] / (turns * EVALUATION_BATCH) * rows
        total["other"] += (sum(spent.values()) - spent["forward"]) / (turns * EVALUATION_BATCH) * rows
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="of each stage in a turn")
    options = parser.parse_args()
    keep_freed_memory()
    config, clocks = measure(options.turns, options.steps)
    n = options.turns * options.steps
    result: dict[str, Any] = {
        "command": "python benchmarks/profile_fast.py --json",
        "turns": options.turns,
        "steps": options.steps,
    }
    for name in ("warm-up", "main"):
        result[name] = shares(clocks[name].seconds)
    total = whole_run(config, clocks, options.turns, options.steps)
    result["run"] = shares(total)
    result["run"]["network_or_evaluation"] = round(result["run"]["network"] + result["run"]["evaluation"], 4)
    result["core_seconds"] = {
        "warm-up step": round(sum(clocks["warm-up"].seconds.values()) / n, 3),
        "main step": round(sum(clocks["main"].seconds.values()) / n, 3),
        "run": round(sum(total.values())),
    }
    result["threads"] = torch.get_num_threads()
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
