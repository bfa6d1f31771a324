"""Which rows of a job are finished, and which a process is to do: the parts of a job that several processes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

T = TypeVar("T")
Range = tuple[int, int]
"""Rows start, …, stop - 1."""
Shard = tuple[str, int, int]
"""An array and rows of it that are encoded at once: name, start, stop."""


class Processes(Protocol):
    """Processes that encode together (`pars.engine.Processes` is one such)."""

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    def in_first(self, function: Callable[[], T]) -> T | None:
        """Call a function in the process of rank 0 while the others wait; its UserError is raised in all of them."""
        ...

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process; all of them call this."""
        ...


class OneProcess:
    """The only process of a job."""

    rank, size = 0, 1

    def in_first(self, function: Callable[[], T]) -> T:
        return function()

    def any(self, flag: bool) -> bool:
        return flag


class Finished:
    """The finished rows of each array, as sorted ranges that do not touch.

    >>> finished = Finished({"x": [(0, 4)]})
    >>> finished.add("x", 8, 12)
    >>> finished.add("x", 4, 8)
    >>> finished.ranges, len(finished)
    ({'x': [(0, 12)]}, 12)
    """

    def __init__(self, ranges: Mapping[str, Iterable[Range]] | None = None) -> None:
        self.ranges: dict[str, list[Range]] = {}
        for name, found in (ranges or {}).items():
            for start, stop in found:
                self.add(name, start, stop)

    def __len__(self) -> int:
        return sum(stop - start for ranges in self.ranges.values() for start, stop in ranges)

    def __contains__(self, shard: Shard) -> bool:
        name, start, stop = shard
        return any(first <= start and stop <= end for first, end in self.ranges.get(name, ()))

    def add(self, name: str, start: int, stop: int) -> None:
        """Note that rows are finished."""
        joined: list[Range] = []
        for first, end in sorted([*self.ranges.get(name, ()), (start, stop)]):
            if joined and first <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((first, end))
        self.ranges[name] = joined


def shards(rows: Mapping[str, int], batch: int) -> list[Shard]:
    """All shards of a job, whose arrays have so many rows. They do not depend on the number of processes.

    >>> shards({"x": 5, "x_test": 1}, batch=4)
    [('x', 0, 4), ('x', 4, 5), ('x_test', 0, 1)]
    """
    return [(name, start, min(start + batch, n)) for name, n in rows.items() for start in range(0, n, batch)]


def own_shards(left: list[Shard], rank: int, size: int) -> list[Shard]:
    """The shards of one process, one after the other, of those that are left to do.

    >>> [own_shards(shards({"x": 5}, batch=1), rank, 2) for rank in (0, 1)]
    [[('x', 0, 1), ('x', 1, 2)], [('x', 2, 3), ('x', 3, 4), ('x', 4, 5)]]
    """
    return left[len(left) * rank // size : len(left) * (rank + 1) // size]
