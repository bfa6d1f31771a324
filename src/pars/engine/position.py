"""Where a checkpoint stands: its note, checked wholly before anything of a run is changed by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from pars.engine.meters import COUNTS
from pars.errors import UserError


@dataclass(frozen=True)
class Position:
    """Finished epochs, finished steps of the epoch under way, its sums in their order, and the work of each network."""

    epoch: int
    step: int
    meter: dict[str, Tensor]
    work: tuple[tuple[int, int, int], ...]  # rows forward only, rows forward and back, FLOP of the optimizer
    spent: dict[str, float]  # FLOP of each stage after the last finished epoch


def read_position(
    note: Mapping[str, Any], meter: Mapping[str, Tensor], where: Path, *, epochs: int, steps: int, networks: int
) -> Position:
    """The position that a checkpoint's note and its tensors of the meter say, in a run of this length."""
    if missing := {"epoch", "step", "work", "meter", "spent"} - note.keys():
        raise UserError(f"{where} is not a checkpoint of this version: no {', '.join(sorted(missing))}")
    epoch, step, work, names, spent = (note[key] for key in ("epoch", "step", "work", "meter", "spent"))

    def require(right: bool, key: str, expected: str) -> None:
        if not right:
            raise UserError(f"{where} does not fit its run: {key} is {note[key]!r}, expected {expected}")

    require(is_count(epoch) and epoch <= epochs, "epoch", f"0 to {epochs}")
    last = 0 if epoch == epochs else steps  # `steps`: all of the epoch's, but it was not evaluated yet
    require(is_count(step) and step <= last, "step", f"0 to {last}")
    triples = isinstance(work, list) and all(isinstance(counts, list) and len(counts) == 3 for counts in work)
    require(triples and len(work) == networks, "work", f"three counts for each of {networks} network(s)")
    require(all(is_count(count) for counts in work for count in counts), "work", "counts of at least 0")
    flops = isinstance(spent, dict) and all(type(flop) in (int, float) and flop >= 0 for flop in spent.values())
    require(flops and bool(spent) == bool(epoch), "spent", "the FLOP of each stage so far")
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    require(texts and sorted(names) == sorted(meter), "meter", f"the names of its sums: {', '.join(sorted(meter))}")
    require(not step or "loss/steps" in names, "meter", "the sums of the epoch under way")
    for name, total in meter.items():
        shape = [len(COUNTS)] if name.startswith("selection/") else []
        if list(total.shape) != shape:
            raise UserError(f"{where} does not fit its run: {name} has shape {list(total.shape)}, expected {shape}")
    return Position(epoch, step, {name: meter[name] for name in names}, tuple((f, b, u) for f, b, u in work), spent)


def is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def check_state(
    found: Mapping[str, Tensor], initial: Mapping[str, Tensor], where: Path, *, kind: str = "state"
) -> None:
    """A method may add tensors while it trains; those it began with have to be there, and of their shape."""
    for name, tensor in initial.items():
        if name not in found or found[name].shape != tensor.shape or found[name].dtype != tensor.dtype:
            what = f"{list(found[name].shape)} {found[name].dtype}" if name in found else "missing"
            expected = f"{list(tensor.shape)} {tensor.dtype}"
            raise UserError(f"{where} does not fit its run: {kind} {name} is {what}, expected {expected}")
