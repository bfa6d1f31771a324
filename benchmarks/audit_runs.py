"""The audit of a PARS run against cleanlab on 5-fold logistic regression: CIFAR-10 features with seven kinds of noise.

    python benchmarks/audit_runs.py --features cifar10-lite0.npz --root DATA      # adds to results/audit-runs.jsonl
    … --cells sym20,worse     only these      … --cache DIR     keep the out-of-fold probabilities for the next time

The first 10 000 rows, preset `features`, method `pars`, one training run each; logistic regression on the same
standardised features and labels, 5 stratified folds, one penalty (C = 0.001; docs/audit.md) for all. True labels only
judge. Needs `pip install -e '.[bench]'`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from cleanlab.filter import find_label_issues
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from pars import audit, run
from pars.noise import NoiseConfig

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.audit_scores import calibration_error, cleanlab_scores, ranking

RESULTS = Path(__file__).parent.parent / "results" / "audit-runs.jsonl"
PENALTY = 0.001
CELLS = {
    "sym20": NoiseConfig(kind="symmetric", rate=0.2),
    "sym50": NoiseConfig(kind="symmetric", rate=0.5),
    "sym80": NoiseConfig(kind="symmetric", rate=0.8),
    "asym40": NoiseConfig(kind="asymmetric", rate=0.4),
    "aggre": NoiseConfig(kind="file", path="CIFAR-10_human.pt", labels="aggre"),
    "random1": NoiseConfig(kind="file", path="CIFAR-10_human.pt", labels="random1"),
    "worse": NoiseConfig(kind="file", path="CIFAR-10_human.pt", labels="worse"),
}
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.cells.split(","):
        config = run.preset("features")(CELLS[name], "pars")
        data = replace(config.data, name=options.features, root=options.root, limit=10_000)
        line = cell(name, replace(config, data=data, device="cpu"), options.cache)
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


def cell(name: str, config: run.RunConfig, cache: Path | None) -> dict[str, Any]:
    prepared = run.prepare(config)
    train = prepared.data.train
    labels, true = train.labels, train.true_labels
    assert true is not None
    begun = time.process_time()
    trainer = run.build(config, prepared, None)
    trainer.run()
    assert trainer.dynamics is not None
    trained = time.process_time()
    report = audit.from_dynamics(trainer.dynamics.rows(trainer.labels, trainer.held_out))
    audited = time.process_time()
    p, seconds = out_of_fold(np.asarray(train.inputs), labels, None if cache is None else cache / f"lr-{name}.npz")
    wrong = labels != true
    found = report.is_label_issue & wrong
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = find_label_issues(labels, p)
    suggested = p.argmax(axis=1)
    return {
        "set": name,
        "pars": {
            **ranking(wrong, report.label_right_prob),
            "ece": round(calibration_error(report.label_right_prob, ~wrong), 4),
            **issues(report.is_label_issue, wrong, report.suggested_label == true, found),
            "cpu_seconds": {"training": round(trained - begun, 1), "audit": round(audited - trained, 1)},
        },
        "cleanlab": {
            "scores": {key: ranking(wrong, values) for key, values in cleanlab_scores(p, labels).items()},
            **issues(theirs, wrong, suggested == true, theirs & wrong),
            "cpu_seconds": {"folds": None if seconds is None else round(seconds, 1)},  # none: from the cache
        },
        "noise_rate": {
            "true": round(float(wrong.mean()), 4),
            "pars": round(report.noise_rate, 4),
            "low": round(report.noise_rate_low, 4),
            "high": round(report.noise_rate_high, 4),
            "cleanlab": round(float(theirs.mean()), 4),
            "estimators": {key: round(value, 4) for key, value in report.estimators.items()},
        },
        "warnings": list(report.warnings),
        "command": "python benchmarks/audit_runs.py --features cifar10-lite0.npz --root DATA",
    }


def issues(flagged: npt.NDArray[np.bool_], wrong: npt.NDArray[np.bool_], right: Any, found: Any) -> dict[str, float]:
    """Precision and recall of the flags, and how many suggestions are right where a wrong label is flagged."""
    return {
        "precision": round(float(wrong[flagged].mean()), 4),
        "recall": round(float(found.sum() / wrong.sum()), 4),
        "suggestions_right_of_wrong_flagged": round(float(right[found].mean()), 4),
    }


def out_of_fold(x: npt.NDArray[Any], labels: Integers, cached: Path | None) -> tuple[Floats, float | None]:
    """Probabilities of logistic regressions that did not see the row, and the CPU time they took."""
    if cached is not None and cached.exists():
        with np.load(cached) as file:
            if np.array_equal(file["y"], labels):
                return file["p"], None
    begun = time.process_time()
    p = np.zeros((len(labels), int(labels.max()) + 1))
    for fitted, rest in StratifiedKFold(5, shuffle=True, random_state=0).split(x, labels):
        p[rest] = LogisticRegression(C=PENALTY, max_iter=300).fit(x[fitted], labels[fitted]).predict_proba(x[rest])
    if cached is not None:
        np.savez(cached, p=p, y=labels)
    return p, time.process_time() - begun


if __name__ == "__main__":
    main()
