"""A run in numbers: what was trained, its accuracies, its cost, and what each stage did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from pars.report.read import Labels, RowRecord, Run

Epoch = Mapping[str, Any]
"""A line of metrics.jsonl."""
WEIGHTS = {
    "mirrored": "averaged weights with flip test-time augmentation",
    "ema": "averaged weights",
    "raw": "raw weights",
}
"""The weights an accuracy is measured with, by its key in metrics.jsonl; `mirrored` is there with views.mirror only."""


def summary(run: Run, *, defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a run's summary as JSON values; accuracies and selections in percent, noise rates as fractions.

    defaults: the [method] table of the method with default hyper-parameters. With it, `method.changed` lists what
    differs; a run folder alone does not hold the defaults.
    """
    last = run.metrics[-1] if run.metrics else {"epoch": 0, "images": 0, "flop": 0.0}
    return {
        "run": str(run.path),
        "finished": run.result is not None,
        "data": _data_summary(run),
        "noise": _noise_summary(run),
        "method": _method_summary(run.config["method"], defaults),
        "model": dict(run.config["model"]),
        "seed": run.config.get("seed"),
        "epochs": {"done": last["epoch"], "planned": run.config["train"].get("epochs")},
        "cost": {
            "images": last["images"],
            "flop": last["flop"],
            "pflop": last["flop"] / 1e15,
            "flop_by_stage": flop_by_stage(run.metrics),
            "budget_pflop": run.config["train"].get("budget", 0.0),
            "stopped": last.get("stopped"),
        },
        "test": outcome(run.metrics, "test"),
        "holdout": outcome(run.metrics, "holdout"),
        "stages": [_stage_summary(lines, run) for lines in by_stage(run.metrics)],
        "curve": _accuracy_curve(run.metrics),
    }


def outcome(metrics: Sequence[Epoch], split: str) -> dict[str, dict[str, float]] | None:
    """Return the last, last-10 and best accuracy (%) of averaged and raw weights; None if never measured.

    split: "test" or "holdout". `best` picks the epoch on the same split: optimistic, but many papers report it.
    With views.mirror, `mirrored` holds the accuracies with flip test-time augmentation.

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
    """Return the epochs of each stage, in order."""
    stages: list[list[Epoch]] = []
    for line in metrics:
        if not stages or stages[-1][-1]["stage"] != line["stage"]:
            stages.append([])
        stages[-1].append(line)
    return stages


def flop_by_stage(metrics: Sequence[Epoch]) -> dict[str, float]:
    """Return the FLOP spent in each stage so far.

    >>> lines = [("warm-up", 2.0), ("main", 6.0), ("main", 10.0)]
    >>> flop_by_stage([{"stage": stage, "flop": flop} for stage, flop in lines])
    {'warm-up': 2.0, 'main': 8.0}
    """
    if metrics and "flop_by_stage" in metrics[-1]:
        return dict(metrics[-1]["flop_by_stage"])
    ends = [(lines[-1]["stage"], lines[-1]["flop"]) for lines in by_stage(metrics)]  # runs that log the sum only
    return {stage: end - before for (stage, end), (_, before) in zip(ends, [("", 0.0), *ends], strict=False)}


def selection_percentages(selection: Mapping[str, float]) -> dict[str, float | None]:
    """Return a selection of metrics.jsonl in percent; None for a percentage of no rows, or without true labels.

    >>> selection_percentages({"rows": 200.0, "selected": 0.0, "unselected": 200.0})["selected"]
    0.0
    """
    any_rows, any_selected, any_unselected = (selection[key] > 0 for key in ("rows", "selected", "unselected"))

    def percentage(key: str, defined: bool) -> float | None:
        return 100 * selection[key] if key in selection and defined else None

    return {
        "selected": 100 * selection["selected"] / selection["rows"] if any_rows else None,
        "pseudo_accuracy": percentage("pseudo_accuracy", any_rows),
        "pseudo_accuracy_selected": percentage("pseudo_accuracy_selected", any_selected),
        "pseudo_accuracy_unselected": percentage("pseudo_accuracy_unselected", any_unselected),
        "labels_right_selected": percentage("labels_right_selected", any_selected),
        "labels_right_unselected": percentage("labels_right_unselected", any_unselected),
        "memorized": percentage("memorized", any_rows),
    }


def grouped(number: int) -> str:
    """Return 12345 as "12 345", with a space that does not break."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _data_summary(run: Run) -> dict[str, Any]:
    labels, table = run.labels, run.config["data"]
    return {
        "name": table.get("name"),
        "rows": len(labels.given),
        "labeled": int(labels.labeled.sum()),
        "classes": len(labels.names),
        "truth_known": labels.true is not None,
        "holdout": table.get("holdout", 0.0),
    }


def _noise_summary(run: Run) -> dict[str, Any]:
    """The noise record without its confusion matrix. Without true labels the realized rate is not known."""
    keys = ("kind", "convention", "rate", "seed", "realized_rate", "n_labeled")
    record = {key: run.noise.get(key) for key in keys}
    return record if run.labels.true is not None else record | {"realized_rate": None}


def _method_summary(table: Mapping[str, Any], defaults: Mapping[str, Any] | None) -> dict[str, Any]:
    parameters = {key: value for key, value in table.items() if key != "kind"}
    out: dict[str, Any] = {"kind": table.get("kind"), "parameters": parameters}
    if defaults is not None:
        out["changed"] = {key: value for key, value in parameters.items() if defaults.get(key) != value}
    return out


def _stage_summary(lines: Sequence[Epoch], run: Run) -> dict[str, Any]:
    """First and last epoch of a stage, its accuracies and selections there, and its rows at the end."""
    first, last = lines[0], lines[-1]
    out: dict[str, Any] = {"stage": last["stage"], "first_epoch": first["epoch"], "epoch": last["epoch"]}
    out |= {key: last[key] for key in ("flop", "test", "holdout") if key in last}
    out["selection"] = {
        name: {
            "first": selection_percentages(first["selection"][name]),
            "last": selection_percentages(last["selection"][name]),
        }
        for name in last["selection"]
        if name in first["selection"]
    }
    record = run.stages.get(last["stage"])
    if record is not None:
        out["rows"] = _rows_summary(record, run.labels, run.tau)
    return out


def _rows_summary(record: RowRecord, labels: Labels, tau: float | None) -> dict[str, Any]:
    """Mean confidence, and how often the label is predicted: of all labeled rows, correct labels, wrong labels."""
    out = {}
    for name, rows in (("labeled", labels.labeled), ("right", labels.correct), ("wrong", labels.wrong)):
        if not rows.any():
            continue
        out[name] = {
            "rows": int(rows.sum()),
            "mean_confidence": _mean_percent(record.confidence[rows]),
            "mean_given_label_confidence": _mean_percent(record.given_label_confidence[rows]),
            "label_is_predicted": _mean_percent(record.agrees[rows]),
        }
        if tau is not None:
            out[name]["selected"] = _mean_percent(record.confidence[rows] > tau)
    return out


def _mean_percent(values: np.ndarray[Any, Any]) -> float:
    return 100 * float(values.mean(dtype=np.float64))


def _accuracy_curve(metrics: Sequence[Epoch]) -> dict[str, Any] | None:
    """Accuracy of the averaged weights on the test set, or on held-out given labels where there is no test set."""
    for split in ("test", "holdout"):
        measured = [line for line in metrics if split in line]
        if measured:
            epochs, values = [line["epoch"] for line in measured], [line[split]["ema"] for line in measured]
            return {"split": split, "epochs": epochs, "ema": values}
    return None
