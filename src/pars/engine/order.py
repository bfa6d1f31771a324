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
from pars.methods import Stage

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Scheduled:
    """A stage, the epoch it begins with, and the batches of its epochs."""

    stage: Stage
    first_epoch: int
    labelled: Order
    more: Order | None


def steps_in_epoch(n_labelled: int, batch_size: int, steps: int | None) -> int:
    """One pass over the labelled rows, or a given number of steps that cycles them.

    >>> steps_in_epoch(50_000, 128, None), steps_in_epoch(4_000, 128, 391)
    (391, 391)
    """
    return steps if steps is not None else math.ceil(n_labelled / batch_size)


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
            rng = seeds.generator(order.seed, f"order/{order.stream}", self._epoch, number)
            self._number, self._pass = number, order.pool[rng.permutation(len(order.pool))]
        return self._pass


def schedule(
    stages: Sequence[Stage], *, labelled: Rows, every: Rows, config: TrainConfig, seed: int
) -> list[Scheduled]:
    """Lay the stages one after the other; a stage of no epochs is left out."""
    if not len(labelled):
        raise UserError("no labelled rows to train on: every label is -1 or held out")
    if sum(stage.epochs for stage in stages) != config.epochs:
        raise UserError(f"the stages have {[s.epochs for s in stages]} epochs, the run {config.epochs}")
    size = min(config.batch_size, len(labelled))
    steps = steps_in_epoch(len(labelled), size, config.steps_per_epoch)
    per_epoch = len(labelled) if config.steps_per_epoch is None else steps * size
    out, first = [], 0
    for stage in stages:
        more = None
        if stage.more is not None:
            pool = labelled if stage.more.pool == "labelled" else every
            more = Order(pool, seed, "more", max(2 * steps, round(stage.more.ratio * per_epoch)), steps)
        if stage.epochs:
            out.append(Scheduled(stage, first, Order(labelled, seed, "labelled", per_epoch, steps), more))
        first += stage.epochs
    return out
