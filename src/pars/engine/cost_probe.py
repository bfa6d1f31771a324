"""What each epoch of a run will cost, counted by running the method's own stages on a few synthetic rows.

How often a method passes a row does not depend on what the row is. So its stages run on 512 labeled rows and a tiny
network for some epochs, and the rows that they pass are scaled to those of the run. Nothing is learned meanwhile.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median_low

import numpy as np
import torch

from pars import augment
from pars.engine.batches import Feed, lay_out
from pars.engine.config import TrainConfig
from pars.engine.learner import NetworkCost, attach
from pars.engine.stages import StageRunner
from pars.method_api import Method, Network
from pars.models import ModelConfig, build_model

LABELED, BATCH = 512, 128  # labeled rows of the probe, in steps of so many
LARGEST = 50_000  # rows, with the unlabeled ones
N_FEATURES = 8
AGREEMENTS = (1.0, 0.5)  # shares of labels that the network predicts


@dataclass(frozen=True)
class RowCounts:
    """The rows of a run: all that may be trained on, those with a label, and how many of these an epoch reads."""

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
        """From its epochs. Expensive ones are rare passes over all rows, no more of them in a longer stage, unless the
        stage ends in them: then something has begun for good. That epochs before that are cheaper is not counted on.

        >>> StageCost.of([2.0, 2.5, 2.0, 2.0]), StageCost.of([1.0, 1.0, 1.0, 3.0, 3.0])
        (StageCost(each=2.0, once=0.5, less=0.0), StageCost(each=3.0, once=0.0, less=2.0))
        """
        usual = max(median_low(flops), median_low(flops[-3:]))
        return cls(usual, sum(max(0.0, flop - usual) for flop in flops), usual - min(flops))


@lru_cache(maxsize=64)
def stage_costs(method: Method, epochs: int, rows: RowCounts, costs: tuple[NetworkCost, ...]) -> dict[str, StageCost]:
    """FLOP of the stages of a run of `epochs` epochs, by name, with networks of these costs per row."""
    stages: dict[str, list[float]] = {}
    for stage, flop in epoch_costs(method, epochs, rows, costs):
        stages.setdefault(stage, []).append(flop)
    return {name: StageCost.of(flops) for name, flops in stages.items()}


def epoch_costs(method: Method, epochs: int, rows: RowCounts, costs: Sequence[NetworkCost]) -> list[tuple[str, float]]:
    """The stage of each epoch and its FLOP, for a run of `epochs` epochs with networks of these costs per row.

    A few methods pass some rows more often than others, as labels and predictions agree or not: DISC passes those that
    it trusts twice, PES predicts the labels of those it does not. The more expensive of two probes counts, one in which
    all labels are predicted and one in which half of them are.
    """
    counted = [CostProbe(method, epochs, rows, agreement=share).epoch_costs(costs) for share in AGREEMENTS]
    return [max(same) for same in zip(*counted, strict=True)]


class CostProbe:
    """Runs a method's stages without an optimizer, and counts the rows that each epoch passes through the networks.

    agreement: the share of the given labels that the network predicts. Its weights stay as they are, so it stays so.
    """

    def __init__(self, method: Method, epochs: int, rows: RowCounts, *, agreement: float) -> None:
        n = min(LARGEST, round(LABELED * rows.every / rows.labeled))
        inputs = 10 * np.random.default_rng(0).standard_normal((n, N_FEATURES)).astype(np.float32)
        tiny = ModelConfig(name="mlp", hidden=(8,))
        modules = [build_model(tiny, (N_FEATURES,), rows.n_classes, seed=0) for _ in range(method.networks)]
        with torch.no_grad():
            predicted = modules[0](torch.from_numpy(inputs)).argmax(dim=1).numpy()
        index = np.arange(n)
        labels = np.where(index < LABELED, (predicted + (index >= agreement * LABELED)) % rows.n_classes, -1)
        views = augment.build_views(
            augment.ViewsConfig(weak="none", strong="none"), image=False, shape=(N_FEATURES,), mean=(), std=()
        )
        feed = Feed(torch.from_numpy(inputs), torch.from_numpy(labels), views, seed=0, device="cpu")
        layout = lay_out(index[:LABELED], index, TrainConfig(batch_size=BATCH), seed=0)
        self._epochs = epochs
        self._runner = StageRunner(method, feed, layout, epochs=epochs, n_classes=rows.n_classes, seed=0)
        self._nets = tuple(
            Network(
                module.train(),
                copy.deepcopy(module).eval().requires_grad_(False),
                attach(method, module, feed.inputs, rows.n_classes, number),
            )
            for number, module in enumerate(modules)
        )
        # Passes before an epoch are over all rows, those of steps over the labeled ones: each grows with its own.
        self._all_rows, self._labeled_rows = rows.every / n, rows.per_epoch / LABELED
        self._updates = rows.steps

    def epoch_costs(self, costs: Sequence[NetworkCost]) -> list[tuple[str, float]]:
        """The stage of each epoch, and its FLOP in the run, with networks of these costs per row."""
        updates = self._updates * sum(cost.update for cost in costs)
        out = []
        for epoch in range(self._epochs):
            stage, passed = self._run_epoch(epoch)
            flop = sum(f * cost.forward + b * cost.training for (f, b), cost in zip(passed, costs, strict=True))
            out.append((stage, flop + updates))
        return out

    def _run_epoch(self, epoch: int) -> tuple[str, list[tuple[float, float]]]:
        """Run an epoch: its stage, and for each network the rows of the run passed forward, and forward and back."""
        runner, nets = self._runner, self._nets
        scheduled = runner.stage_of(epoch)
        for net in nets:
            net.forwards = net.backwards = 0
        if epoch == scheduled.first_epoch:
            runner.before_epoch(scheduled, nets, epoch, of_stage=True)
        runner.before_epoch(scheduled, nets, epoch)
        before = [net.forwards for net in nets]
        orders = runner.layout.orders(scheduled.stage.draws, runner.state)
        for step in range(runner.steps):
            rows = {name: order.batch(epoch, step) for name, order in orders.items()}
            runner.run_step(scheduled, nets, rows, epoch=epoch, step=step)
        return scheduled.stage.name, [
            (
                swept * self._all_rows + (net.forwards - swept) * self._labeled_rows,
                net.backwards * self._labeled_rows,
            )
            for net, swept in zip(nets, before, strict=True)
        ]
