"""A run in numbers: what was trained, how it ended, what each stage did. The `--json` of what `overview` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pars.report.outcome import Epoch, by_stage, flop_by_stage, outcome, selection_shares
from pars.report.read import Labels, RowRecord, Run


def summary(run: Run, *, defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return plain values, ready for JSON; accuracies and shares are per cent, noise rates fractions as in noise.json.

    `defaults` is the [method] table of the method with nothing changed, where the caller has it: then
    `method.changed` names what differs from it (the run folder alone does not know).
    """
    spent = flop_by_stage(run.metrics)
    last = run.metrics[-1] if run.metrics else {"epoch": 0, "images": 0, "flop": 0.0}
    return {
        "run": str(run.path),
        "finished": run.result is not None,
        "data": describe_data(run),
        "noise": describe_noise(run),
        "method": describe_method(run.config["method"], defaults),
        "model": dict(run.config["model"]),
        "seed": run.config.get("seed"),
        "epochs": {"done": last["epoch"], "planned": run.config["train"].get("epochs")},
        "cost": {
            "images": last["images"],
            "flop": last["flop"],
            "pflop": last["flop"] / 1e15,
            "flop_by_stage": spent,
            "budget_pflop": run.config["train"].get("budget", 0.0),
            "stopped": last.get("stopped"),
        },
        "test": outcome(run.metrics, "test"),
        "holdout": outcome(run.metrics, "holdout"),
        "stages": [describe_stage(lines, run) for lines in by_stage(run.metrics)],
        "curve": accuracy_curve(run.metrics),
    }


def describe_data(run: Run) -> dict[str, Any]:
    labels, table = run.labels, run.config["data"]
    return {
        "name": table.get("name"),
        "rows": len(labels.given),
        "labeled": int(labels.labeled.sum()),
        "classes": len(labels.names),
        "truth_known": labels.true is not None,
        "holdout": table.get("holdout", 0.0),
    }


def describe_noise(run: Run) -> dict[str, Any]:
    """The record without its matrix. Where no row's truth is known, nobody knows how many labels are wrong."""
    kept = {key: run.noise.get(key) for key in ("kind", "convention", "rate", "seed", "realized_rate", "n_labeled")}
    return kept if run.labels.true is not None else kept | {"realized_rate": None}


def describe_method(table: Mapping[str, Any], defaults: Mapping[str, Any] | None) -> dict[str, Any]:
    parameters = {key: value for key, value in table.items() if key != "kind"}
    out: dict[str, Any] = {"kind": table.get("kind"), "parameters": parameters}
    if defaults is not None:
        out["changed"] = {key: value for key, value in parameters.items() if defaults.get(key) != value}
    return out


def describe_stage(lines: Sequence[Epoch], run: Run) -> dict[str, Any]:
    """First and last epoch of a stage, its accuracies and selections there, and the row record of its end."""
    first, last = lines[0], lines[-1]
    out: dict[str, Any] = {"stage": last["stage"], "first_epoch": first["epoch"], "epoch": last["epoch"]}
    out |= {key: last[key] for key in ("flop", "test", "holdout") if key in last}
    out["selection"] = {
        name: {"first": selection_shares(first["selection"][name]), "last": selection_shares(last["selection"][name])}
        for name in last["selection"]
        if name in first["selection"]
    }
    record = run.stages.get(last["stage"])
    if record is not None:
        out["rows"] = describe_rows(record, run.labels, run.tau)
    return out


def describe_rows(record: RowRecord, labels: Labels, tau: float | None) -> dict[str, Any]:
    """How sure the network is of labeled rows, and of those with right and wrong labels; how often it agrees."""
    out = {}
    for name, rows in (("labeled", labels.labeled), ("right", labels.right), ("wrong", labels.wrong)):
        if not rows.any():
            continue
        out[name] = {
            "rows": int(rows.sum()),
            "mean_confidence": per_cent(record.confidence[rows]),
            "mean_given_label_confidence": per_cent(record.given_label_confidence[rows]),
            "label_is_predicted": per_cent(record.agrees[rows]),
        }
        if tau is not None:
            out[name]["selected"] = per_cent(record.confidence[rows] > tau)
    return out


def per_cent(values: np.ndarray[Any, Any]) -> float:
    return 100 * float(values.mean(dtype=np.float64))


def accuracy_curve(metrics: Sequence[Epoch]) -> dict[str, Any] | None:
    """The headline curve: averaged weights on the test set, or on held-out given labels where there is no test set."""
    for split in ("test", "holdout"):
        measured = [line for line in metrics if split in line]
        if measured:
            epochs, values = [line["epoch"] for line in measured], [line[split]["ema"] for line in measured]
            return {"split": split, "epochs": epochs, "ema": values}
    return None
