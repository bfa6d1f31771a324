"""How tensors go from process to process: through memory that all of them see, or through torch's collectives.

A step exchanges some twenty small tensors, most of them statistics of BatchNorm. Between processes on one machine gloo
takes about a millisecond for each, shared memory a few hundredths of that.
"""

from __future__ import annotations

import mmap
import os
import platform
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, distributed

from pars.errors import UserError, one_line

TIMEOUT = 30 * 60.0  # seconds; a process that is gone is noticed at once, this is for one that hangs
AGAIN = "`pars resume`, or the same `pars encode`"
_SLOT = 1 << 20  # bytes that a process can pass in one turn; larger tensors take several
_SMALL = 1 << 14  # bytes up to which every process adds everything up by itself
_LINE = 8  # numbers that the counters of one process take: as much as processors' cores read or write at a time
_SPINS = 200  # looks at another process before the core is offered to others
_AWAKE = 0.001  # seconds before this process sleeps between looks: cores that others use are left to them
_PATIENCE = 0.02  # seconds until the other process is suspected to have ended


class Exchange(Protocol):
    """Exchanges of tensors; every process makes the same ones in the same order."""

    def gather(self, own: Tensor) -> Tensor:
        """The tensors [...] of all processes, by rank: [processes, ...]."""
        ...

    def add(self, own: Tensor) -> None:
        """Replace a contiguous tensor by its sum over the processes; the bits are the same in all of them."""
        ...


class Collectives:
    """Through torch.distributed: gloo on CPUs, NCCL on GPUs."""

    def gather(self, own: Tensor) -> Tensor:
        found = own.new_empty(distributed.get_world_size(), *own.shape)
        try:
            distributed.all_gather(list(found.unbind()), own.detach().contiguous())
        except RuntimeError as error:
            raise _unreachable(error) from error
        return found

    def add(self, own: Tensor) -> None:
        try:
            distributed.all_reduce(own)
        except RuntimeError as error:
            raise _unreachable(error) from error

    def __deepcopy__(self, memo: dict[int, Any]) -> Collectives:
        return self  # copies of a network exchange as it does


class SharedMemory:
    """Through a piece of memory that all processes have mapped.

    In each turn a process writes into its own slot and then raises its counter; who sees all counters raised may read
    all slots. Turns alternate between two sets of slots: who writes in turn t + 2 has seen the others begin turn t + 1,
    so they are done with what they read in turn t. This relies on stores being seen in their order, as on x86.
    """

    def __init__(self, rank: int, memory: mmap.mmap, pids: Sequence[int]) -> None:
        self._rank, self._size, self._turn = rank, len(pids), 0
        head = self._size * _LINE * 8
        self._counters = memoryview(memory)[:head].cast("q")
        slots = torch.frombuffer(memory, dtype=torch.uint8)[head:]
        self._slots = slots.view(2, self._size + 1, _SLOT)  # the last slot of a set takes sums
        self._others = [(other, other * _LINE) for other in range(self._size) if other != rank]
        self._handles = {os.pidfd_open(pids[other]): other for other, _ in self._others}  # readable when it has ended
        self._ended = select.poll()
        for handle in self._handles:
            self._ended.register(handle, select.POLLIN)

    @classmethod
    def join(cls, rank: int, size: int) -> SharedMemory | None:
        """Map the memory in all processes, which call this together; None in all of them if any cannot."""
        out, own = None, -1
        length = size * _LINE * 8 + 2 * (size + 1) * _SLOT
        can = _is_supported() and os.environ.get("LOCAL_WORLD_SIZE") == str(size)  # started by one launcher
        if can and rank == 0:
            with suppress(OSError):
                own = os.memfd_create("pars")  # nothing is left of it when the last process has ended, however
                os.ftruncate(own, length)
        ready = Collectives().gather(torch.tensor([can, os.getpid(), own])).tolist()
        if all(each[0] for each in ready) and ready[0][2] >= 0:
            with suppress(OSError), Path(f"/proc/{ready[0][1]}/fd/{ready[0][2]}").open("r+b") as file:
                out = cls(rank, mmap.mmap(file.fileno(), length), [pid for _, pid, _ in ready])
        mapped = bool(Collectives().gather(torch.tensor([out is not None])).all())
        if own >= 0:
            os.close(own)
        return out if mapped else None

    def gather(self, own: Tensor) -> Tensor:
        found = own.new_empty(self._size, *own.shape)
        flat, all_flat = own.detach().contiguous().view(-1), found.view(self._size, -1)
        for part in _parts(flat):
            all_flat[:, part].copy_(self._pass(flat[part])[:-1])
        return found

    def add(self, own: Tensor) -> None:
        flat = own.detach().view(-1)
        for part in _parts(flat):
            into, n = flat[part], len(flat[part])
            slots = self._pass(into)
            if into.nbytes <= _SMALL:
                torch.sum(slots[:-1], dim=0, out=into)
                continue
            mine = slice(n * self._rank // self._size, n * (self._rank + 1) // self._size)
            torch.sum(slots[:-1, mine], dim=0, out=slots[-1, mine])
            self._wait(into.nbytes)
            into.copy_(slots[-1])

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedMemory:
        return self  # copies of a network exchange as it does

    def _pass(self, own: Tensor) -> Tensor:
        """Show the others a tensor [n] and see theirs: the slots [processes + 1, n] of this turn."""
        slots = self._slots[self._turn % 2, :, : own.nbytes].view(own.dtype)
        slots[self._rank].copy_(own)
        self._wait(own.nbytes)
        return slots

    def _wait(self, length: int) -> None:
        """Wait until all processes have come to the end of this turn, and check that all pass as many bytes in it."""
        self._turn = turn = self._turn + 1
        counters, own, side = self._counters, self._rank * _LINE, 1 + turn % 2
        counters[own + side] = length
        counters[own] = turn
        for other, at in self._others:
            for _ in range(_SPINS):
                if counters[at] >= turn:
                    break
            else:
                self._wait_long(at, turn)
            if counters[at + side] != length:
                raise RuntimeError(f"ranks {self._rank} and {other} exchange different tensors; please report this")

    def _wait_long(self, at: int, turn: int) -> None:
        began = time.monotonic()
        while self._counters[at] < turn:
            waited = time.monotonic() - began
            if waited < _AWAKE:
                os.sched_yield()
                continue
            time.sleep(1e-4)
            if waited < _PATIENCE:
                continue
            ended = sorted(self._handles[handle] for handle, _ in self._ended.poll(0))
            if ended and self._counters[at] < turn:
                raise UserError(f"rank {ended[0]} has ended, so the others cannot go on; resume with {AGAIN}")
            if waited > TIMEOUT:
                raise UserError(f"rank {at // _LINE} has not come to the same point in {TIMEOUT / 60:.0f} minutes")


def _parts(flat: Tensor) -> Iterator[slice]:
    """The turns that a tensor [n] takes."""
    step = _SLOT // flat.element_size()
    for start in range(0, len(flat), step):
        yield slice(start, start + step)


def _is_supported() -> bool:
    return hasattr(os, "pidfd_open") and platform.machine() in ("x86_64", "AMD64")


def _unreachable(error: RuntimeError) -> UserError:
    return UserError(
        f"another process has ended or cannot be reached, so this one cannot go on ({one_line(error)}); torchrun's "
        f"report names its rank; resume with {AGAIN}"
    )
