"""The rows of a run: which are in which batch, and what the network is given of them. All of it a pure function of
(seed, epoch, step)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pars import seeds
from pars.augment import Views, gather_rows
from pars.data import DiskImages
from pars.engine.config import TrainConfig
from pars.errors import UserError
from pars.method_api import Batch, Draw, Network, Pass, State, Sweep, ViewName, features_of, head_of

Rows = npt.NDArray[np.int64]
EVALUATION_BATCH = 512  # rows of a batch in passes without a gradient, and
EVALUATION_VALUES = 2**24  # at most so many numbers: 64 MB
# Two streams of batches keep the names they had when committed results were computed: others would change every draw.
STREAMS = {"labeled": "labelled", "unlabeled": "more"}


@dataclass(eq=False)
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
    _shuffled: tuple[tuple[int, int], Rows] | None = None  # (epoch, number) of the last pass that was read, its rows

    def batch(self, epoch: int, step: int) -> Rows:
        """The rows of a step. A pass is shuffled when it is first read: an epoch may have millions of them."""
        size, parts = len(self.pool), []
        start, end = (at * self.per_epoch // self.steps for at in (step, step + 1))
        for number in range(start // size, -(-end // size)):
            if self._shuffled is None or self._shuffled[0] != (epoch, number):
                rng = seeds.generator(self.seed, f"order/{STREAMS.get(self.stream, self.stream)}", epoch, number)
                self._shuffled = (epoch, number), self.pool[rng.permutation(size)]
            parts.append(self._shuffled[1][max(0, start - number * size) : end - number * size])
        return np.concatenate(parts)


@dataclass(eq=False)
class BalancedOrder(Order):
    """As many rows of each class in an epoch, up to one, in one shuffle.

    A row is drawn again only after all of its class were: classes with fewer rows than their part are repeated.
    """

    labels: Rows = field(kw_only=True)  # [n] given labels of all rows

    def batch(self, epoch: int, step: int) -> Rows:
        """The rows of a step; those of an epoch are drawn when its first batch is."""
        if self._shuffled is None or self._shuffled[0] != (epoch, 0):
            self._shuffled = (epoch, 0), self._draw(epoch)
        start, end = (at * self.per_epoch // self.steps for at in (step, step + 1))
        return self._shuffled[1][start:end]

    def _draw(self, epoch: int) -> Rows:
        name = f"balanced/{STREAMS.get(self.stream, self.stream)}"
        of_pool = self.labels[self.pool]
        classes, drawn = np.unique(of_pool), []
        rng = seeds.generator(self.seed, name, epoch)
        quota = np.full(len(classes), self.per_epoch // len(classes))
        quota[rng.permutation(len(classes))[: self.per_epoch % len(classes)]] += 1
        for label, count in zip(classes, quota.tolist(), strict=True):
            rows = self.pool[of_pool == label]
            passes = [rows[rng.permutation(len(rows))] for _ in range(-(-count // len(rows)))]
            drawn += passes and [np.concatenate(passes)[:count]]
        found: Rows = np.concatenate(drawn)
        return found[rng.permutation(len(found))]


@dataclass(frozen=True, eq=False)
class Layout:
    """The rows of a run, and how many of them an epoch reads in how many steps.

    labels: given labels [n] of all rows, where every class is to have the same part of the labeled batches.
    """

    labeled: Rows  # row numbers with a label
    every: Rows  # row numbers that may be trained on
    per_epoch: int
    steps: int
    seed: int
    labels: Rows | None = None

    def orders(self, draws: Mapping[str, Draw], state: State) -> dict[str, Order]:
        """The batches of "labeled" and of a stage's draws, in an epoch that begins, or goes on, with this state."""
        orders = {"labeled": self._order("labeled", self.labeled, self.per_epoch, balanced=True)}
        for name, draw in draws.items():
            if name == "labeled" and draw == Draw("labeled"):
                continue  # as if it were not given
            if callable(draw.pool):
                pool = draw.pool(state).cpu().numpy()
                assert np.isin(pool, self.every).all(), f"batches {name!r} would hold rows that are held out"
            else:
                pool = self.labeled if draw.pool == "labeled" else self.every
            if not len(pool) and draw.optional:
                continue
            if not len(pool):
                raise UserError(f"the method chose no rows for its batches {name!r}: nothing to train on")
            ratio = draw.ratio(state) if callable(draw.ratio) else draw.ratio
            # At least two rows each: BatchNorm needs them.
            per_epoch = max(2 * self.steps, round(ratio * self.per_epoch))
            orders[name] = self._order(name, pool, per_epoch, balanced=draw.pool == "labeled")
        return orders

    def _order(self, name: str, pool: Rows, per_epoch: int, *, balanced: bool) -> Order:
        if balanced and self.labels is not None:
            return BalancedOrder(pool, self.seed, name, per_epoch, self.steps, labels=self.labels)
        return Order(pool, self.seed, name, per_epoch, self.steps)


def lay_out(labeled: Rows, every: Rows, config: TrainConfig, seed: int, labels: Rows | None = None) -> Layout:
    """The layout of a run: one pass over the labeled rows per epoch, or `config.steps_per_epoch` steps.

    labels: given labels [n] of all rows, for `config.class_balanced`.

    >>> rows = np.arange(50_000)
    >>> lay_out(rows, rows, TrainConfig(batch_size=128), 0).steps
    391
    """
    if not len(labeled):
        raise UserError("no labeled rows to train on: every label is -1 or held out")
    size = min(config.batch_size, len(labeled))
    by_class = labels if config.class_balanced else None
    if config.steps_per_epoch is None:
        return Layout(labeled, every, len(labeled), math.ceil(len(labeled) / size), seed, by_class)
    return Layout(labeled, every, config.steps_per_epoch * size, config.steps_per_epoch, seed, by_class)


def evaluation_batch(shape: Sequence[int]) -> int:
    """Rows of a batch without a gradient, of inputs of this shape.

    >>> evaluation_batch((3, 32, 32)), evaluation_batch((3, 256, 256))
    (512, 85)
    """
    return max(1, min(EVALUATION_BATCH, EVALUATION_VALUES // math.prod(shape)))


class Feed:
    """The training rows on the device, and views of them.

    inputs: [n, ...]. labels: [n] given labels, -1 = unlabeled. cached: [n, views, d], views encoded beforehand.
    A view's parameters are a function of (seed, draw, view, epoch, step).
    """

    def __init__(
        self,
        inputs: Tensor | DiskRows,
        labels: Tensor,
        views: Views,
        *,
        seed: int,
        device: str,
        cached: Tensor | None = None,
    ) -> None:
        self.inputs: Any = inputs if isinstance(inputs, DiskRows) else inputs.to(device)  # both give rows by index
        self.labels = labels.to(device)
        self.cached = None if cached is None else cached.to(device)
        self.views, self.seed, self.device = views, seed, device

    def batch(self, draw: str, rows: Rows, epoch: int, step: int) -> Batch:
        """The batch of one draw in a step, from its row numbers [B]."""
        index = torch.from_numpy(rows).to(self.device)

        def make_view(name: str, number: int) -> Tensor:
            return self.view(index, f"view/{STREAMS.get(draw, draw)}/{name}/{number}", name, epoch, step)

        return Batch(index, self.labels[index], make_view)

    def passes(self, epoch: int) -> Pass:
        """The function that `Epoch.sweep` calls before this epoch: one pass over rows in evaluation mode."""

        @torch.no_grad()
        def run_pass(net: Network, rows: Tensor, view: ViewName, index: int, *, features: bool) -> Sweep:
            module, parts = net.module, []

            def with_features(inputs: Tensor) -> tuple[Tensor, Tensor]:
                hidden = features_of(module, inputs)
                return head_of(module)(hidden).float(), hidden.float()

            was_training = module.training
            module.eval()
            try:
                for number, part in enumerate(torch.split(rows, evaluation_batch(self.inputs.shape[1:]))):
                    inputs = (
                        self.views.plain(self.inputs[part])
                        if view == "plain"
                        else self.view(part, f"view/pass/{view}/{index}", view, epoch, number)
                    )
                    found = net.apply(with_features, inputs) if features else (net.apply(module, inputs).float(),)
                    parts.append(found)
            finally:
                module.train(was_training)
            net.forwards += len(rows)
            logits, *hidden = (torch.cat(each) for each in zip(*parts, strict=True))
            return Sweep(logits, hidden[0] if hidden else None)

        return run_pass

    def view(self, index: Tensor, stream: str, name: str, epoch: int, step: int) -> Tensor:
        """Weak or strong views of some rows [m], with parameters from a stream of random numbers."""
        view = self.views.weak if name == "weak" else self.views.strong
        params = view.draw(seeds.generator(self.seed, stream, epoch, step), len(index), tuple(self.inputs.shape[1:]))
        return self.views.finish(view.apply(gather_rows(self.inputs, self.cached, index, params), params))


class DiskRows:
    """Images on disk in place of a tensor [n, C, H, W]: rows are decoded when they are indexed.

    A slice or an index tensor gives a tensor of pixels on the device. Views of one batch share what was decoded.
    """

    def __init__(self, images: DiskImages, device: str) -> None:
        self._images, self._device = images, device
        self.shape, self.ndim = images.shape, images.ndim

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: Tensor | slice) -> Tensor:
        rows = np.arange(len(self))[index] if isinstance(index, slice) else index.cpu().numpy()
        return torch.from_numpy(self._images.gather(rows)).to(self._device)

    def subset(self, rows: Tensor) -> DiskRows:
        """Some of the rows, still on disk."""
        return DiskRows(replace(self._images, rows=self._images.rows[rows.cpu().numpy()]), self._device)

    def prefetch(self, rows: Rows) -> None:
        """Begin to decode rows that will be asked for."""
        self._images.prefetch(rows)


def as_tensor(array: npt.NDArray[Any]) -> Tensor:
    """A tensor over the same memory where torch can; a read-only memory map is copied."""
    return torch.from_numpy(array if array.flags.writeable and not any(s < 0 for s in array.strides) else array.copy())
