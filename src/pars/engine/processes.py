"""Training in several processes: each passes its part of every batch through the networks.

The rows of a batch, their views and a method's own draws are the same in all processes, so only the networks' work is
divided. Each process passes its part of the rows forward and gets the outputs of all others. It then computes the loss
of the whole batch, like a single process: terms over the batch (means over selected rows, class balance, mixing, values
stored per row) need no care. Backward, it follows its own rows only, so gradients are added up over the processes.
Every method works so. One that passes rows through a network by itself divides other work (`MLNT`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from pars.engine.exchange import TIMEOUT, Collectives, Exchange, SharedMemory
from pars.errors import UserError
from pars.models.synchronized_batch_norm import synchronize_batch_norm

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """The processes that train together: how many, and which of them this is (`rank`, from 0).

    A single process has no need of the methods; who trains calls them where `size` is above 1.
    """

    rank: int = 0
    size: int = 1
    device: str = "cpu"
    exchange: Exchange = field(default_factory=Collectives)

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and shows progress."""
        return self.rank == 0

    def apply(self, function: Callable[[Tensor], T], rows: Tensor, /) -> T:
        """Return `function(rows)`, each process computing its part of the rows; outputs have one value per row.

        Gradients of the result follow the own part only: `add_gradients` completes them.
        """
        n = len(rows)
        if n < self.size:
            raise UserError(
                f"{n} row(s) cannot be divided among {self.size} processes; use fewer processes or larger batches"
            )
        bounds = [n * rank // self.size for rank in range(self.size + 1)]
        own: Any = function(rows[bounds[self.rank] : bounds[self.rank + 1]])
        if isinstance(own, Tensor):
            out: Any = self._gather_rows(own, bounds)
        else:
            out = tuple(self._gather_rows(each, bounds) for each in own)
        found: T = out
        return found

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace the gradients by their sums over the processes."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if not gradients:
            return
        joined = torch.cat([gradient.reshape(-1) for gradient in gradients])
        self.exchange.add(joined)
        for gradient, part in zip(gradients, torch.split(joined, [g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view(gradient.shape))

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        if self.size == 1:
            return flag
        return bool(self.exchange.gather(torch.tensor([flag], device=self.device)).any())

    def check_equal(self, tensors: Iterable[Tensor]) -> None:
        """Raise a RuntimeError if these tensors are not the same in all processes."""
        sums = self.exchange.gather(torch.stack([tensor.detach().double().sum() for tensor in tensors]))
        if not torch.equal(sums, sums[:1].expand_as(sums)):
            raise RuntimeError(f"rank {self.rank}: the processes' weights differ; please report this")

    def in_first(self, function: Callable[[], T]) -> T | None:
        """Call a function in the first process while the others wait; its UserError is raised in all of them."""
        if self.size == 1:
            return function()
        result, message = None, ""
        if self.is_first:
            try:
                result = function()
            except UserError as error:
                message = str(error) or "failed"
                self.broadcast(message)
                raise
        message = self.broadcast(message)
        if message and not self.is_first:
            raise UserError(message)
        return result

    def broadcast(self, text: str) -> str:
        """The first process' text, in every process."""
        if self.size == 1:
            return text
        encoded = text.encode("utf-8", "surrogateescape")
        length = torch.tensor([len(encoded)], device=self.device)
        distributed.broadcast(length, src=0)
        content = torch.zeros(int(length), dtype=torch.uint8, device=self.device)
        if self.is_first and encoded:
            content.copy_(torch.frombuffer(bytearray(encoded), dtype=torch.uint8))
        distributed.broadcast(content, src=0)
        return bytes(content.tolist()).decode("utf-8", "surrogateescape")

    def synchronized(self, module: nn.Module) -> nn.Module:
        """The network, BatchNorm taking its statistics from the rows of all processes."""
        if self.device == "cuda":
            out: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
            return out
        return synchronize_batch_norm(module, self.exchange.gather)

    def _gather_rows(self, own: Tensor, bounds: Sequence[int]) -> Tensor:
        out: Tensor = _GatherRows.apply(own, bounds, self.rank, self.exchange)  # type: ignore[no-untyped-call]
        return out


class _GatherRows(torch.autograd.Function):
    """The rows of all processes one after the other; the gradient of the own ones."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, bounds: Sequence[int], rank: int, exchange: Exchange) -> Tensor:
        ctx.part = slice(bounds[rank], bounds[rank + 1])
        sizes = [end - start for start, end in pairwise(bounds)]
        if len(own) < max(sizes):  # parts differ by a row: all are sent in one size
            own = torch.cat([own, own.new_zeros(1, *own.shape[1:])])
        parts = exchange.gather(own)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return gradient[ctx.part].contiguous(), None, None, None


def launched() -> bool:
    """Whether torchrun, or something that sets the same variables, started several processes."""
    try:
        return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ
    except ValueError as error:
        raise UserError(f"WORLD_SIZE is {os.environ['WORLD_SIZE']!r}, expected a number of processes") from error


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """Join the processes that torchrun started; without it this is the only one.

    device: "cpu" (shared memory on one machine, else gloo) or "cuda" (NCCL, one device per process).
    """
    if not launched():
        yield Processes()
        return
    backend = "gloo" if device == "cpu" else "nccl"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    try:
        distributed.init_process_group(backend, timeout=timedelta(seconds=TIMEOUT))
    except (ValueError, RuntimeError) as error:
        raise UserError(f"the processes cannot be joined: {error}; start them with torchrun") from error
    try:
        rank, size = distributed.get_rank(), distributed.get_world_size()
        exchange = (SharedMemory.join(rank, size) if device == "cpu" else None) or Collectives()
        yield Processes(rank, size, device, exchange)
    finally:
        distributed.destroy_process_group()
