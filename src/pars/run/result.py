"""A run's outcome in numbers, computed from its metrics alone."""

from __future__ import annotations

from statistics import fmean
from typing import Any


def summarise(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Last, best and last-10 accuracy of averaged and raw weights, and what it cost.

    The headline is the last epoch's averaged weights. `best` picks the epoch by the test set itself: it is there for
    comparison with papers that report it, and is optimistic.
    """
    out: dict[str, Any] = {"epochs": lines[-1]["epoch"], "images": lines[-1]["images"], "flop": lines[-1]["flop"]}
    for split in ("test", "holdout"):
        measured = [line for line in lines if split in line]
        if not measured:
            continue
        out[split] = {}
        for weights in ("ema", "raw"):
            curve = [line[split][weights] for line in measured]
            best = max(range(len(curve)), key=curve.__getitem__)
            out[split][weights] = {
                "last": curve[-1],
                "last10": fmean(curve[-10:]),
                "best": curve[best],
                "best_epoch": measured[best]["epoch"],
            }
    out["stages"] = stage_ends(lines)
    out["selection"] = lines[-1]["selection"]
    return out


def stage_ends(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last epoch of each stage with its accuracies."""
    ends = [a for a, b in zip(lines, [*lines[1:], {"stage": None}], strict=True) if a["stage"] != b["stage"]]
    return [{key: line[key] for key in ("stage", "epoch", "flop", "test", "holdout") if key in line} for line in ends]
