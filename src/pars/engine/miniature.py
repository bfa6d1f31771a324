"""What each epoch of a run will cost, counted on a miniature: a few rows of noise and a tiny network.

How often a method passes a row does not depend on what the row is. So its own stages run on 512 labeled rows for some
epochs, and what they pass is scaled to the real rows and networks. Nothing is learned meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median_low
from typing import Any

import numpy as np
import torch

from pars import augment
from pars.data import Dataset, Split
from pars.engine.config import TrainConfig
from pars.engine.flops import NetworkCost
from pars.engine.meters import EpochMeter
from pars.engine.order import Scheduled
from pars.engine.trainer import Trainer
from pars.method_api import Method
from pars.models import ModelConfig, build_model

LABELED, BATCH = 512, 128  # labeled rows of the miniature, in steps of so many
LARGEST = 50_000  # rows, with the unlabeled ones
N_FEATURES = 8
AGREE = (1.0, 0.5)


@dataclass(frozen=True)
class RowCounts:
    """The rows of a run that may be trained on, those with a label, and how many of the latter an epoch reads."""

    every: int
    labeled: int
    per_epoch: int
    n_classes: int
    steps: int = 0  # of an epoch: each updates the weights


@dataclass(frozen=True)
class StageCost:
    """What a stage costs in FLOP: each epoch, and once in all."""

    each: float
    once: float
    less: float = 0.0  # by so much the cheapest epoch is below `each`

    @classmethod
    def of(cls, flops: Sequence[float]) -> StageCost:
        """From its epochs. Dearer ones are rare looks at all rows, no more of them in a longer stage, unless the stage
        ends in them: then something has begun for good. That epochs before that are cheaper is not counted on.

        >>> StageCost.of([2.0, 2.5, 2.0, 2.0]), StageCost.of([1.0, 1.0, 1.0, 3.0, 3.0])
        (StageCost(each=2.0, once=0.5, less=0.0), StageCost(each=3.0, once=0.0, less=2.0))
        """
        usual = max(median_low(flops), median_low(flops[-3:]))
        return cls(usual, sum(max(0.0, flop - usual) for flop in flops), usual - min(flops))


@lru_cache(maxsize=64)
def stage_costs(method: Method, epochs: int, rows: RowCounts, costs: tuple[NetworkCost, ...]) -> dict[str, StageCost]:
    """What the stages of a run of so many epochs cost, by name, with networks of these costs per row."""
    stages: dict[str, list[float]] = {}
    for stage, flop in epoch_costs(method, epochs, rows, costs):
        stages.setdefault(stage, []).append(flop)
    return {name: StageCost.of(flops) for name, flops in stages.items()}


def epoch_costs(method: Method, epochs: int, rows: RowCounts, costs: Sequence[NetworkCost]) -> list[tuple[str, float]]:
    """The stage of each epoch, and what it costs in FLOP with networks of these costs per row.

    A few methods pass some rows more often than others, as labels and predictions agree or not: DISC passes those that
    it trusts twice, PES guesses the labels of those it does not. The dearer of two miniatures counts, one in which all
    labels are predicted and one in which half of them are.
    """
    counted = [Miniature(method, epochs, rows, agree=agree).counted(costs) for agree in AGREE]
    return [max(same) for same in zip(*counted, strict=True)]


class Miniature(Trainer):
    """Runs a method's stages and counts the rows that each epoch passes."""

    def __init__(self, method: Method, epochs: int, rows: RowCounts, *, agree: float) -> None:
        k = rows.n_classes
        n = min(LARGEST, round(LABELED * rows.every / rows.labeled))
        inputs = 10 * np.random.default_rng(0).standard_normal((n, N_FEATURES)).astype(np.float32)
        tiny = ModelConfig(name="mlp", hidden=(8,))
        networks = [build_model(tiny, (N_FEATURES,), k, seed=0) for _ in range(method.networks)]
        with torch.no_grad():
            predicted = networks[0](torch.from_numpy(inputs)).argmax(dim=1).numpy()
        index = np.arange(n)
        labels = np.where(index < LABELED, (predicted + (index >= agree * LABELED)) % k, -1)
        off = augment.ViewsConfig(weak="none", strong="none")
        super().__init__(
            method=method,
            data=Dataset("miniature", Split(inputs, labels), None, tuple(map(str, range(k)))),
            networks=networks,
            views=augment.build_views(off, image=False, shape=(N_FEATURES,), mean=(), std=()),
            config=TrainConfig(epochs=epochs, batch_size=BATCH, lr=0.0, weight_decay=0.0, dynamics_every=0),
            seed=0,
        )
        self.learners = []  # nothing to step
        self._steps = rows.steps
        self._look, self._step = rows.every / n, rows.per_epoch / LABELED
        self._stages: list[str] = []
        self._work: list[list[tuple[float, float]]] = []  # of each epoch and network: rows forward, forward and back

    def counted(self, costs: Sequence[NetworkCost]) -> list[tuple[str, float]]:
        while not self.is_over:
            self._run_epoch([])
        flops = [
            sum(f * cost.forward + b * cost.training for (f, b), cost in zip(work, costs, strict=True))
            for work in self._work
        ]
        updates = self._steps * sum(cost.update for cost in costs)
        return [(stage, flop + updates) for stage, flop in zip(self._stages, flops, strict=True)]

    def _enter(self, now: Scheduled) -> None:
        """Stay as it is: with fresh weights, or a learning rate of the stage's own, predictions would change."""

    def _begin_epoch(self, now: Scheduled) -> None:
        """Looks at all rows are counted apart from steps: with few labels there are more or fewer of them."""
        for net in self.nets:
            net.forwards = net.backwards = 0
        super()._begin_epoch(now)
        self._looked = [net.forwards for net in self.nets]

    def _finish_epoch(self, now: Scheduled) -> dict[str, Any]:
        self._stages.append(now.stage.name)
        self._work.append(
            [
                (looked * self._look + (net.forwards - looked) * self._step, net.backwards * self._step)
                for net, looked in zip(self.nets, self._looked, strict=True)
            ]
        )
        self.epoch, self.step, self.meter = self.epoch + 1, 0, EpochMeter(None)
        return {}
