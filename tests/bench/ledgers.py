"""Ledgers made by hand."""

from __future__ import annotations

from typing import Any


def result(row: str, column: str, seed: int, selected: float, scale: str = "features", **more: Any) -> dict[str, Any]:
    """A line as a cell writes it, with numbers that follow from `selected`."""
    numbers = {
        name: {"epoch": 1, "accuracy": selected + shift, "balanced": selected - 1, "worst_class": selected - 20}
        for name, shift in (("selected", 0.0), ("last", -1.5), ("best", 0.5))
    }
    for name in numbers:
        numbers[name]["holdout"] = selected / 2
    return {
        "cell": f"{scale}/{column}/{row}/seed-{seed}",
        "config": f"{row}-{seed}",
        "status": "ok",
        "scale": scale,
        "column": column,
        "row": row,
        "method": row,
        "seed": seed,
        "settings": {},
        "networks": 1,
        "flop": 8e11,
        "core_seconds": 30.0,
        "curve": [[1, 4e11, selected - 2, 40.0], [2, 8e11, selected, 41.0]],
        "confidence": {"right": [1] * 20, "wrong": [2] * 20},
        **numbers,
        **more,
    }


def failed(row: str, column: str, seed: int, error: str) -> dict[str, Any]:
    line = result(row, column, seed, 0.0)
    return {key: line[key] for key in ("cell", "config", "scale", "column", "row", "method", "seed")} | {
        "status": "failed",
        "error": error,
    }
