"""How many epochs a budget in FLOP buys, and how they are divided between stages.

It is decided before training:
1. What an epoch of each stage costs is counted by a `CostProbe`.
2. A budget below the cost of the fewest epochs that have all stages is refused.
3. Where a method leaves the length of its first stage free (`Method.free_length`), the lengths of its two stages are
   those that fill the budget nearest to the share it asks for. Otherwise, the most epochs that fit are taken.
4. Where some epochs are cheaper than counted on, more epochs are added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pars.augment import Views
from pars.data import Dataset
from pars.engine.batches import as_tensor, lay_out
from pars.engine.config import TrainConfig
from pars.engine.cost_probe import RowCounts, StageCost, epoch_costs, stage_costs
from pars.engine.learner import PFLOP, NetworkCost, check_network, fits, network_cost
from pars.engine.optimizer import update_flop
from pars.errors import UserError
from pars.method_api import Method, Stage, Task

COUNTED = 24  # epochs of the probe; more where a method needs more to have all of its stages
MOST = 1_000_000  # epochs
COUNTED_ALONE = 300  # the longest run whose every epoch is counted, where they cost differently
UNUSED = 0.03  # of a budget may be left, so that the first stage has its share


@dataclass(frozen=True)
class StagePlan:
    """A stage of a plan, and what it is expected to cost."""

    stage: str
    epochs: int
    flop: float  # of all its epochs
    usual: float  # FLOP of most of its epochs


@dataclass(frozen=True)
class Plan:
    """What a budget buys: a method's stages, and the method with the length of its first stage filled in."""

    method: Method
    stages: tuple[StagePlan, ...]

    @property
    def epochs(self) -> int:
        return sum(stage.epochs for stage in self.stages)

    @property
    def flop(self) -> float:
        return sum(stage.flop for stage in self.stages)

    @property
    def by_epoch(self) -> tuple[float, ...]:
        """The expected FLOP of each epoch."""
        return tuple(stage.usual for stage in self.stages for _ in range(stage.epochs))


def plan(
    *,
    method: Method,
    data: Dataset,
    networks: Sequence[nn.Module],
    views: Views,
    config: TrainConfig,
    held_out: npt.NDArray[np.bool_],
) -> Plan:
    """The plan of a run with `config.budget` above 0. Arguments are those of a Trainer."""
    labels = np.where(held_out, -1, data.train.labels)
    usable, labeled = np.flatnonzero(~held_out), np.flatnonzero(labels >= 0)
    example = views.plain(as_tensor(data.train.inputs[np.zeros(2, dtype=np.int64)]))
    for index, module in enumerate(networks):
        check_network(module, example, data.n_classes, 2, f"networks[{index}]")
    layout = lay_out(labeled, usable, config, 0)
    rows = RowCounts(len(usable), len(labeled), layout.per_epoch, data.n_classes, layout.steps)
    costs = tuple(network_cost(module, example, update_flop(module, config.optimizer)) for module in networks)
    task = Task(len(labels), data.n_classes, torch.from_numpy(labels), config.epochs)
    return plan_for(method, config.budget, task, rows, costs)


def plan_for(method: Method, budget: float, task: Task, rows: RowCounts, costs: tuple[NetworkCost, ...]) -> Plan:
    """The plan for a budget in PFLOP.

    task: the data; its epochs do not matter. rows: numbers of rows. costs: of each network.
    """
    least = _least_epochs(method, task)
    rates = stage_costs(method, max(COUNTED, least), rows, costs)
    smallest = _plan_of(method, least, task, rates)
    if not fits(smallest.flop, budget):
        stages = ", ".join(f"{stage.stage} {stage.epochs}" for stage in smallest.stages)
        raise UserError(
            f"train.budget is {budget:g} PFLOP, but {type(method).__name__} needs at least "
            f"{_rounded_up(smallest.flop / PFLOP)} here: {least} epochs ({stages})"
        )
    if fits(_plan_of(method, MOST, task, rates).flop, budget):
        raise UserError(f"train.budget is {budget:g} PFLOP: more than {MOST} epochs here; a PFLOP is 1e15 operations")
    free = method.free_length if len(smallest.stages) == 2 else None
    if free is None:
        plan = _longest(method, budget, task, rates, least)
    else:
        first, second = (rates[stage.stage] for stage in smallest.stages)
        left = budget * PFLOP - first.once - second.once
        lengths = nearest_share(left, first.each, second.each, getattr(method, free.share))
        plan = _plan_of(replace(method, **{free.epochs: lengths[0]}), sum(lengths), task, rates)
    return _filled(plan, budget, task, rates, lambda method, epochs: epoch_costs(method, epochs, rows, costs))


def _stages_of(method: Method, epochs: int, task: Task) -> list[Stage]:
    """The stages that have epochs, in a run of `epochs`."""
    return [stage for stage in method.stages(replace(task, epochs=epochs)) if stage.epochs]


def _plan_of(method: Method, epochs: int, task: Task, rates: Mapping[str, StageCost]) -> Plan:
    """The plan of a run of `epochs` epochs, at these costs of each stage."""
    found = [(stage, rates[stage.name]) for stage in _stages_of(method, epochs, task)]
    costs = ((stage, stage.epochs * rate.each + rate.once, rate.each) for stage, rate in found)
    return Plan(method, tuple(StagePlan(stage.name, stage.epochs, flop, each) for stage, flop, each in costs))


def _least_epochs(method: Method, task: Task) -> int:
    """The fewest epochs in which every stage of a long run has one."""
    wanted = len(_stages_of(method, MOST, task))
    for epochs in range(1, MOST):
        try:
            if len(_stages_of(method, epochs, task)) == wanted:
                return epochs
        except UserError:  # a length in epochs is longer than this run
            continue
    return MOST


def _longest(method: Method, budget: float, task: Task, rates: Mapping[str, StageCost], least: int) -> Plan:
    """The plan with the most epochs that fit, found by bisection."""
    low, high = least, MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(_plan_of(method, middle, task, rates).flop, budget) else (low, middle)
    return _plan_of(method, low, task, rates)


def _filled(
    plan: Plan,
    budget: float,
    task: Task,
    rates: Mapping[str, StageCost],
    count: Callable[[Method, int], list[tuple[str, float]]],
) -> Plan:
    """The plan, longer where epochs cost less than counted: those that end a stage may cost more than the rest.

    count: the stage and FLOP of each epoch of a run of so many. When the expensive epochs begin is known to a part of
    an epoch only, so what one epoch costs less is left unused.
    """
    spare = sum(rate.less for rate in rates.values())
    if not spare:
        return plan
    best, epochs = plan, plan.epochs
    while epochs <= COUNTED_ALONE:
        longer = _plan_of(plan.method, epochs, task, rates)
        flop: dict[str, float] = {}
        for stage, cost in count(plan.method, epochs):
            flop[stage] = flop.get(stage, 0.0) + cost
        left = budget * PFLOP - sum(flop.values()) - spare
        if left < 0:
            break
        best = Plan(plan.method, tuple(replace(stage, flop=flop[stage.stage]) for stage in longer.stages))
        epochs += max(1, int(left / longer.stages[-1].usual))
    return best


def nearest_share(budget: float, first: float, second: float, share: float) -> tuple[int, int]:
    """Numbers of epochs of two stages that cost so much each, in a budget that has room for one of each.

    Of the pairs that leave less unused than 3 % or an epoch of the cheaper stage, the one in which the first stage's
    part of the epochs is nearest to `share`: that share alone could leave nearly an epoch of the costlier one unused.

    >>> nearest_share(33, 1, 5, 0.4), nearest_share(33, 1, 5, 0.6), nearest_share(20, 1, 1, 0.4)
    ((3, 6), (8, 5), (8, 12))
    """
    budget *= 1 + 1e-9  # as `fits`
    dear, cheap = max(first, second), min(first, second)
    many = np.arange(1, 1 + min(MOST, int(budget / dear)), dtype=np.int64)
    left = budget - many * dear
    most = np.floor(left / cheap)
    least = np.maximum(1, np.floor((left - max(cheap, UNUSED * budget)) / cheap) + 1)
    wanted = many * ((1 - share) / share if first > second else share / (1 - share))
    few = np.concatenate([np.clip(np.floor(wanted), least, most), np.clip(np.ceil(wanted), least, most)])
    possible = np.tile(most >= least, 2)
    many, few = np.tile(many, 2)[possible], few[possible].astype(np.int64)
    firsts, seconds = (many, few) if first > second else (few, many)
    distance = np.abs(firsts / (firsts + seconds) - share)
    best = int(np.lexsort([-(firsts * first + seconds * second), distance])[0])  # of equals the fullest
    return int(firsts[best]), int(seconds[best])


def _rounded_up(value: float, digits: int = 3) -> str:
    """A number to so many digits, never below.

    >>> _rounded_up(0.0123401)
    '0.0124'
    """
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return f"{math.ceil(value / unit - 1e-9) * unit:.{digits}g}"
