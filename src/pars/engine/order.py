"""Which rows are in which batch: a pure function of (seed, epoch, step)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pars import seeds

Rows = npt.NDArray[np.int64]


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
        return [rows[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
