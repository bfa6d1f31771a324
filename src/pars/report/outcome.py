"""Numbers that text and plots share, from a run's metrics alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

Epoch = Mapping[str, Any]
WEIGHTS = {
    "mirrored": "averaged weights, with mirror images",
    "ema": "averaged weights",
    "raw": "raw weights",
}
"""What an accuracy is of, as metrics.jsonl names it; the first is there with views.mirror only."""


def outcome(metrics: Sequence[Epoch], split: str) -> dict[str, dict[str, float]] | None:
    """Last, last-10 and best accuracy (%) of averaged and raw weights; none where the split was never measured.

    With views.mirror also of the averaged weights' mean over an image and its mirror image (`mirrored`).

    `best` picks the epoch by the same split: for comparison with papers that report it, and optimistic.

    >>> lines = [{"epoch": e, "test": {"ema": a, "raw": 0.0}} for e, a in ((1, 80.0), (2, 90.0), (3, 85.0))]
    >>> outcome(lines, "test")["ema"]
    {'last': 85.0, 'last10': 85.0, 'best': 90.0, 'best_epoch': 2}
    """
    measured = [line for line in metrics if split in line]
    if not measured:
        return None
    out = {}
    for weights in WEIGHTS:
        if not all(weights in line[split] for line in measured):
            continue
        curve = [line[split][weights] for line in measured]
        best = max(curve)
        out[weights] = {
            "last": curve[-1],
            "last10": fmean(curve[-10:]),
            "best": best,
            "best_epoch": measured[curve.index(best)]["epoch"],
        }
    return out


def by_stage(metrics: Sequence[Epoch]) -> list[list[Epoch]]:
    """The epochs of each stage, in order."""
    stages: list[list[Epoch]] = []
    for line in metrics:
        if not stages or stages[-1][-1]["stage"] != line["stage"]:
            stages.append([])
        stages[-1].append(line)
    return stages


def flop_by_stage(metrics: Sequence[Epoch]) -> dict[str, float]:
    """What each stage has cost so far.

    >>> lines = [("warm-up", 2.0), ("main", 6.0), ("main", 10.0)]
    >>> flop_by_stage([{"stage": stage, "flop": flop} for stage, flop in lines])
    {'warm-up': 2.0, 'main': 8.0}
    """
    if metrics and "flop_by_stage" in metrics[-1]:
        return dict(metrics[-1]["flop_by_stage"])
    ends = [(lines[-1]["stage"], lines[-1]["flop"]) for lines in by_stage(metrics)]  # of a run before it was logged
    return {stage: end - before for (stage, end), (_, before) in zip(ends, [("", 0.0), *ends], strict=False)}


def flop_words(flop: float, stages: Mapping[str, float], budget: float = 0.0) -> str:
    """In PFLOP: of what budget, and by stage.

    >>> flop_words(2.94e14, {"warm-up": 0.27e14, "main": 2.67e14}, 0.3)
    '0.294 of 0.3 PFLOP (warm-up 0.027, main 0.267)'
    """
    of = f" of {budget:g}" if budget else ""
    parts = ", ".join(f"{stage} {spent / 1e15:.3g}" for stage, spent in stages.items())
    return f"{flop / 1e15:.3g}{of} PFLOP" + (f" ({parts})" if len(stages) > 1 else "")


def selection_shares(selection: Mapping[str, float]) -> dict[str, float | None]:
    """A selection of metrics.jsonl as per cent; none where there was nothing to take a share of, or no truth.

    >>> selection_shares({"rows": 200.0, "selected": 0.0, "unselected": 200.0})["selected"]
    0.0
    """
    some_selected, some_unselected = selection["selected"] > 0, selection["unselected"] > 0

    def known(key: str, of_something: bool) -> float | None:
        return 100 * selection[key] if key in selection and of_something else None

    return {
        "selected": 100 * selection["selected"] / selection["rows"] if selection["rows"] else None,
        "pseudo_accuracy": known("pseudo_accuracy", selection["rows"] > 0),
        "pseudo_accuracy_selected": known("pseudo_accuracy_selected", some_selected),
        "pseudo_accuracy_unselected": known("pseudo_accuracy_unselected", some_unselected),
        "labels_right_selected": known("labels_right_selected", some_selected),
        "labels_right_unselected": known("labels_right_unselected", some_unselected),
        "memorized": known("memorized", selection["rows"] > 0),
    }


def grouped(number: int) -> str:
    """12345 as "12 345", with a space that does not break."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
