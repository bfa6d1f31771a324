"""Which rows are in which batch: a pure function of (seed, epoch, step)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

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

    def epoch(self, epoch: int) -> list[Rows]:
        """The batches of an epoch, in order."""
        passes = math.ceil(self.per_epoch / len(self.pool))
        shuffled = [
            self.pool[seeds.generator(self.seed, f"order/{self.stream}", epoch, index).permutation(len(self.pool))]
            for index in range(passes)
        ]
        rows = np.concatenate(shuffled)[: self.per_epoch]
        cuts = [step * self.per_epoch // self.steps for step in range(self.steps + 1)]
        return [rows[a:b] for a, b in itertools.pairwise(cuts)]


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
