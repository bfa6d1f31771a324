"""Which rows are in which batch: a pure function of (seed, epoch, step)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from pars import seeds
from pars.engine.config import TrainConfig
from pars.errors import UserError
from pars.method_api import Draw, Stage, State

Rows = npt.NDArray[np.int64]
LABELED = Draw("labeled")


def steps_in_epoch(n_labeled: int, batch_size: int, steps: int | None) -> int:
    """One pass over the labeled rows, or a given number of steps that cycles them.

    >>> steps_in_epoch(50_000, 128, None), steps_in_epoch(4_000, 128, 391)
    (391, 391)
    """
    return steps if steps is not None else math.ceil(n_labeled / batch_size)


@dataclass(frozen=True, eq=False)
class Order:
    """The rows of a pool in shuffled passes, cut into equal batches.

    An epoch reads `per_epoch` rows: whole passes, each in its own order, and part of one more. The cut is even: batch
    sizes differ by at most one, so there is no small last batch whose BatchNorm statistics would be worthless.
    """

    pool: Rows
    seed: int
    stream: str
    per_epoch: int
    steps: int

    @property
    def smallest(self) -> int:
        """Rows of the smallest batch."""
        return self.per_epoch // self.steps

    def epoch(self, epoch: int) -> Batches:
        """The batches of an epoch, in order."""
        return Batches(self, epoch)


class Batches(Sequence[Rows]):
    """The batches of one epoch. A pass is shuffled when it is asked for: an epoch may have millions of them."""

    def __init__(self, order: Order, epoch: int) -> None:
        self._order, self._epoch = order, epoch
        self._number, self._pass = -1, order.pool

    def __len__(self) -> int:
        return self._order.steps

    @overload
    def __getitem__(self, step: int) -> Rows: ...
    @overload
    def __getitem__(self, step: slice) -> list[Rows]: ...
    def __getitem__(self, step: int | slice) -> Rows | list[Rows]:
        if isinstance(step, slice):
            return [self[index] for index in range(*step.indices(len(self)))]
        if not 0 <= step < len(self):
            raise IndexError(step)
        order, size = self._order, len(self._order.pool)
        start, end = (at * order.per_epoch // order.steps for at in (step, step + 1))
        parts = [
            self._shuffled(number)[max(0, start - number * size) : end - number * size]
            for number in range(start // size, -(-end // size))
        ]
        return np.concatenate(parts)

    def _shuffled(self, number: int) -> Rows:
        """The rows of a pass in its own order; the last one asked for is kept."""
        if number != self._number:
            order = self._order
            rng = seeds.generator(order.seed, f"order/{seeds.batch_stream(order.stream)}", self._epoch, number)
            self._number, self._pass = number, order.pool[rng.permutation(len(order.pool))]
        return self._pass


@dataclass(frozen=True, eq=False)
class Layout:
    """The rows of a run, and how many of them an epoch reads in how many steps."""

    labeled: Rows
    every: Rows
    per_epoch: int
    steps: int
    seed: int

    def order(self, name: str, draw: Draw, state: State) -> Order:
        """The batches of a draw, as the method's state has it now."""
        if name == "labeled" and draw == LABELED:
            return Order(self.labeled, self.seed, name, self.per_epoch, self.steps)
        if callable(draw.pool):
            pool = draw.pool(state).cpu().numpy()
            assert np.isin(pool, self.every).all(), f"batches {name!r} would hold rows that are held out"
        else:
            pool = self.labeled if draw.pool == "labeled" else self.every
        if not len(pool):
            raise UserError(f"the method chose no rows for its batches {name!r}: nothing to train on")
        ratio = draw.ratio(state) if callable(draw.ratio) else draw.ratio
        # At least two rows each: BatchNorm needs them.
        return Order(pool, self.seed, name, max(2 * self.steps, round(ratio * self.per_epoch)), self.steps)


@dataclass(frozen=True, eq=False)
class Scheduled:
    """A stage, the epoch it begins with, and where its rows come from."""

    stage: Stage
    first_epoch: int
    layout: Layout

    @property
    def draws(self) -> dict[str, Draw]:
        return {"labeled": LABELED, **self.stage.draws}

    def orders(self, state: State) -> dict[str, Order]:
        """The batches of each draw in an epoch that begins, or is under way, with this state."""
        return {name: self.layout.order(name, draw, state) for name, draw in self.draws.items()}


def lay_out(labeled: Rows, every: Rows, config: TrainConfig, seed: int) -> Layout:
    """One pass over the labeled rows an epoch, or as many steps as the configuration says."""
    if not len(labeled):
        raise UserError("no labeled rows to train on: every label is -1 or held out")
    size = min(config.batch_size, len(labeled))
    steps = steps_in_epoch(len(labeled), size, config.steps_per_epoch)
    per_epoch = len(labeled) if config.steps_per_epoch is None else steps * size
    return Layout(labeled, every, per_epoch, steps, seed)


def schedule(stages: Sequence[Stage], layout: Layout, epochs: int) -> list[Scheduled]:
    """Lay the stages one after the other; a stage of no epochs is left out."""
    if sum(stage.epochs for stage in stages) != epochs:
        raise UserError(f"the stages have {[s.epochs for s in stages]} epochs, the run {epochs}")
    out, first = [], 0
    for stage in stages:
        if stage.epochs:
            out.append(Scheduled(stage, first, layout))
        first += stage.epochs
    return out
