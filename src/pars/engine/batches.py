"""The rows of a run: which are in which batch, and what the network is given of them. All of it a pure function of
(seed, epoch, step)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pars import seeds
from pars.augment import Views, gather_rows
from pars.engine.config import TrainConfig
from pars.errors import UserError
from pars.method_api import Batch, Draw, Network, Pass, State, Sweep, ViewName, features_of, head_of

Rows = npt.NDArray[np.int64]
LABELED = Draw("labeled")
EVALUATION_BATCH = 512  # rows of a batch in passes without a gradient


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
        """Number of rows in the smallest batch."""
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
        """The rows of a pass in its own order; the last one asked for is cached."""
        if number != self._number:
            order = self._order
            rng = seeds.generator(order.seed, f"order/{seeds.batch_stream(order.stream)}", self._epoch, number)
            self._number, self._pass = number, order.pool[rng.permutation(len(order.pool))]
        return self._pass


@dataclass(frozen=True, eq=False)
class Layout:
    """The rows of a run, and how many of them an epoch reads in how many steps."""

    labeled: Rows  # row numbers with a label
    every: Rows  # row numbers that may be trained on
    per_epoch: int
    steps: int
    seed: int

    def order(self, name: str, draw: Draw, state: State) -> Order:
        """The batches of a draw, given the method's current state."""
        if name == "labeled" and draw == LABELED:
            return Order(self.labeled, self.seed, name, self.per_epoch, self.steps)
        pool = self.pool(name, draw, state)
        if not len(pool):
            raise UserError(f"the method chose no rows for its batches {name!r}: nothing to train on")
        ratio = draw.ratio(state) if callable(draw.ratio) else draw.ratio
        # At least two rows each: BatchNorm needs them.
        return Order(pool, self.seed, name, max(2 * self.steps, round(ratio * self.per_epoch)), self.steps)

    def pool(self, name: str, draw: Draw, state: State) -> Rows:
        """The row numbers that a draw takes its batches from, given the method's current state."""
        if not callable(draw.pool):
            return self.labeled if draw.pool == "labeled" else self.every
        pool: Rows = draw.pool(state).cpu().numpy()
        assert np.isin(pool, self.every).all(), f"batches {name!r} would hold rows that are held out"
        return pool


def lay_out(labeled: Rows, every: Rows, config: TrainConfig, seed: int) -> Layout:
    """The layout of a run: one pass over the labeled rows per epoch, or `config.steps_per_epoch` steps."""
    if not len(labeled):
        raise UserError("no labeled rows to train on: every label is -1 or held out")
    size = min(config.batch_size, len(labeled))
    steps = steps_in_epoch(len(labeled), size, config.steps_per_epoch)
    per_epoch = len(labeled) if config.steps_per_epoch is None else steps * size
    return Layout(labeled, every, per_epoch, steps, seed)


def steps_in_epoch(n_labeled: int, batch_size: int, steps: int | None) -> int:
    """Number of steps: one pass over the labeled rows, or a given number that cycles them.

    >>> steps_in_epoch(50_000, 128, None), steps_in_epoch(4_000, 128, 391)
    (391, 391)
    """
    return steps if steps is not None else math.ceil(n_labeled / batch_size)


class Feed:
    """The training rows on the device, and views of them.

    inputs: [n, ...]. labels: [n] given labels, -1 = unlabeled. cached: [n, views, d], views encoded beforehand.
    A view's parameters are a function of (seed, draw, view, epoch, step).
    """

    def __init__(
        self, inputs: Tensor, labels: Tensor, views: Views, *, seed: int, device: str, cached: Tensor | None = None
    ) -> None:
        self.inputs, self.labels = inputs.to(device), labels.to(device)
        self.cached = None if cached is None else cached.to(device)
        self.views, self.seed, self.device = views, seed, device

    def batch(self, draw: str, rows: Rows, epoch: int, step: int) -> Batch:
        """The batch of one draw in a step, from its row numbers [B]."""
        index = torch.from_numpy(rows).to(self.device)

        def make_view(name: str, number: int) -> Tensor:
            return self._view(index, f"view/{seeds.batch_stream(draw)}/{name}/{number}", name, epoch, step)

        return Batch(index, self.labels[index], make_view)

    def passes(self, epoch: int) -> Pass:
        """The function that `Epoch.sweep` calls before this epoch: one pass over rows in evaluation mode."""

        @torch.no_grad()
        def run_pass(net: Network, rows: Tensor, view: ViewName, index: int, *, features: bool) -> Sweep:
            module, parts = net.module, []
            was_training = module.training
            module.eval()
            try:
                for number, part in enumerate(torch.split(rows, EVALUATION_BATCH)):
                    inputs = (
                        self.views.plain(self.inputs[part])
                        if view == "plain"
                        else self._view(part, f"view/pass/{view}/{index}", view, epoch, number)
                    )
                    hidden = features_of(module, inputs) if features else None
                    logits = module(inputs) if hidden is None else head_of(module)(hidden)
                    parts.append((logits.float(), hidden))
            finally:
                module.train(was_training)
            net.forwards += len(rows)
            logits = torch.cat([logits for logits, _ in parts])
            found = [hidden.float() for _, hidden in parts if hidden is not None]
            return Sweep(logits, torch.cat(found) if found else None)

        return run_pass

    def weak(self, rows: Tensor, stream: str, epoch: int, step: int) -> Tensor:
        """Weak views of some rows [m], with parameters from a stream of random numbers of their own."""
        return self._view(rows, f"view/{stream}/weak", "weak", epoch, step)

    def _view(self, index: Tensor, stream: str, name: str, epoch: int, step: int) -> Tensor:
        view = self.views.weak if name == "weak" else self.views.strong
        params = view.draw(seeds.generator(self.seed, stream, epoch, step), len(index), tuple(self.inputs.shape[1:]))
        return self.views.finish(view.apply(gather_rows(self.inputs, self.cached, index, params), params))


def as_tensor(array: npt.NDArray[Any]) -> Tensor:
    """A tensor over the same memory where torch can; a read-only memory map is copied."""
    return torch.from_numpy(array if array.flags.writeable and not any(s < 0 for s in array.strides) else array.copy())
