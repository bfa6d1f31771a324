"""Where a run computes: the device, the number of CPU threads, and freed memory.

A training step on a CPU waits for the slowest of its threads. Where other processes use the cores, a second thread
waits for a core more than it helps. The number is chosen once, when a run begins, and recorded in its folder: sums are
added in another order with another number of threads, so a resumed run has to use the same.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from pars.errors import UserError

DeviceName = Literal["auto", "cpu", "cuda"]
SMALL_STEP = 2e7  # FLOP of a step below which handing out the work costs more than a second thread saves
WINDOW, RECENT = 0.1, 10.0  # seconds: the least over which load is measured, and the age from which it is outdated
ROOT = Path("/")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's <malloc.h>
NEVER = (1 << 31) - 1


def resolve_device(name: DeviceName) -> str:
    """ "cpu" or "cuda"; "auto" is CUDA where there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("device is 'cuda', but this torch sees no CUDA device; use --device auto or cpu")
    return "cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu"


def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory for the next step; whether it could be asked.

    A step on a CPU frees as many megabytes as it takes, and by default glibc gives them back to the kernel each time,
    which then has to clear every page anew. Without that a small CNN trains a fifth faster (benchmarks/step.py). The
    process keeps its peak of memory in exchange. No result changes.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    return mallopt is not None and all(mallopt(option, NEVER) for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD))


def choose_threads(step_flop: float) -> int:
    """The number of threads for steps of this cost, from the cores that are allowed and idle right now.

    `OMP_NUM_THREADS` decides where it is set. It never exceeds what torch has now, so a call of `torch.set_num_threads`
    with a lower number is respected, too.
    """
    most = torch.get_num_threads()
    if os.environ.get("OMP_NUM_THREADS") or most == 1:
        return most
    if step_flop < SMALL_STEP:
        return 1
    cores = allowed_cores()
    limit = min(most, len(cores) or most, cpu_quota() or most)
    return limit if limit == 1 or not cores else max(1, min(limit, round(idle_cores(cores))))


def recorded_threads(recorded: int | None) -> int | None:
    """The number of threads to resume with: `OMP_NUM_THREADS` if it is set, else as recorded; none if unknown."""
    return torch.get_num_threads() if os.environ.get("OMP_NUM_THREADS") else recorded


@contextmanager
def use_threads(count: int | None) -> Iterator[None]:
    """Set the number of torch's threads inside the block, and reset it afterwards; none leaves it alone."""
    before = torch.get_num_threads()
    if count is None or count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def allowed_cores() -> set[int]:
    """The numbers of the cores this process may run on; empty where the system does not say."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return set() if affinity is None else set(affinity(0))


def cpu_quota(root: Path = ROOT) -> int | None:
    """The number of cores' worth of time that cgroups (v2, then v1) grant, rounded up; none without a limit.

    The limits of all groups above this process' own hold, too; the lowest counts.
    """
    try:
        groups = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    quotas = []
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            bases, read = ("sys/fs/cgroup", "sys/fs/cgroup/unified"), _quota_v2
        elif "cpu" in controllers.split(","):
            bases, read = ("sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"), _quota_v1
        else:
            continue
        own = Path(path.lstrip("/"))
        quotas += [read(root / base / group) for base in bases for group in (own, *own.parents)]
    found = [quota for quota in quotas if quota is not None]
    return max(1, math.ceil(min(found))) if found else None


def _quota_v2(group: Path) -> float | None:
    """Cores of a cgroup v2: `cpu.max` holds "200000 100000" (microseconds of each period), or "max 100000"."""
    try:
        quota, period = (group / "cpu.max").read_text(encoding="utf-8").split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _quota_v1(group: Path) -> float | None:
    """Cores of a cgroup v1; a quota of -1 is none."""
    try:
        quota, period = (
            int((group / f"cpu.cfs_{name}_us").read_text(encoding="utf-8")) for name in ("quota", "period")
        )
        return None if quota <= 0 else quota / period
    except (OSError, ValueError, ZeroDivisionError):
        return None


@dataclass(frozen=True)
class LoadReading:
    """Counters of a moment: (idle, all) ticks of each core, CPU seconds of this process, and the time."""

    cores: Mapping[int, tuple[int, int]]
    own_seconds: float
    at: float

    @classmethod
    def now(cls, root: Path = ROOT) -> LoadReading:
        return cls(_core_times(root), time.process_time(), time.monotonic())


def idle_cores(cores: Collection[int]) -> float:
    """How many of these cores no other process uses, on average since this module was imported, or right now.

    Right now: over `WINDOW` seconds of sleep, where the import was less or much longer ago.
    """
    before = _begun
    if not WINDOW <= time.monotonic() - before.at <= RECENT:
        before = LoadReading.now()
        time.sleep(WINDOW)
    return unused_cores(cores, before, LoadReading.now())


def unused_cores(cores: Collection[int], before: LoadReading, after: LoadReading) -> float:
    """How many cores other processes left idle between two readings; all where the system does not say."""
    if not all(core in before.cores and core in after.cores for core in cores):
        return float(len(cores))
    idle = sum(_idle_share(before.cores[core], after.cores[core]) for core in cores)
    own = (after.own_seconds - before.own_seconds) / max(1e-9, after.at - before.at)
    return min(float(len(cores)), idle + own)


def _idle_share(before: tuple[int, int], after: tuple[int, int]) -> float:
    """The idle share of a core between two readings of (idle, all) time.

    >>> _idle_share((100, 200), (105, 220))
    0.25
    """
    idle, every = after[0] - before[0], after[1] - before[1]
    return 1.0 if every <= 0 else min(1.0, max(0.0, idle / every))


def _core_times(root: Path = ROOT) -> dict[int, tuple[int, int]]:
    """(idle, all) time of each core since the system started, in ticks, from /proc/stat."""
    try:
        lines = (root / "proc/stat").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    out = {}
    for name, *values in (line.split() for line in lines if line.startswith("cpu")):
        if name != "cpu":
            ticks = [int(value) for value in values[:8]]  # guest time, which follows, is in user time already
            out[int(name.removeprefix("cpu"))] = (ticks[3] + ticks[4], sum(ticks))  # waiting for a disk is idle
    return out


_begun = LoadReading.now()  # the load is measured while the process starts up, so that nobody waits for it
