"""A run's outcome in numbers, computed from its metrics alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pars.errors import UserError
from pars.report import by_stage, flop_by_stage, outcome


def summarize(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Last, best and last-10 accuracy of averaged and raw weights, what it cost, and where each stage ended.

    The headline is the last epoch's averaged weights. `best` picks the epoch by the test set itself: it is there for
    comparison with papers that report it, and is optimistic. `selected` is there where train.select
    chose, by held-out labels, the checkpoint that the run ended with.
    """
    if not lines:
        raise UserError("the run's metrics.jsonl is missing or empty: there is no epoch to sum up")
    last = lines[-1]
    out: dict[str, Any] = {key: last[key] for key in ("images", "flop", "selection")} | {"epochs": last["epoch"]}
    out["flop_by_stage"] = flop_by_stage(lines)
    if "stopped" in last:
        out["stopped"] = last["stopped"]  # "budget": before its last epoch
    out |= {split: found for split in ("test", "holdout") if (found := outcome(lines, split)) is not None}
    out["stages"] = [ending(stage[-1]) for stage in by_stage(lines)]
    if choices := [line["selected"] for line in lines if "selected" in line]:
        out["selected"] = next(ending(line) for line in lines if line["epoch"] == choices[-1])
    return out


def ending(line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: line[key] for key in ("stage", "epoch", "flop", "test", "holdout") if key in line}
