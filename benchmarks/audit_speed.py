"""Seconds of an audit beside those of cleanlab's usual preparation, five folds of logistic regression.

    python benchmarks/audit_speed.py --json                        # rows that are made, a few minutes
    python benchmarks/audit_speed.py --features cifar10-lite0.npz  # its first 10 000 rows, 20 % flipped

10 000 rows with 1 280 features and 10 classes. CPU seconds of one process with one thread, in turns:

folds   cross_val_predict of LogisticRegression(), scikit-learn's defaults, in five stratified folds
fast    pars.audit.from_features(X, y)
fit     PARSClassifier().fit(X, y) and audit()

fit_ratio and fast_ratio: medians of fit and fast over that of folds. AUROC and AP of each are printed, too; for the
folds those of self-confidence. Adds a line to results/audit-speed.jsonl.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.audit_cases import flipped
from benchmarks.audit_small import ranking

PATH = Path(__file__).parent.parent / "results" / "audit-speed.jsonl"
ROWS, FEATURES, CLASSES = 10_000, 1280, 10


def rows(path: Path | None) -> tuple[Any, Any, Any]:
    """Features, given and true labels."""
    if path is not None:
        with np.load(path) as file:
            x, true = file["x"][:ROWS].astype(np.float32), file["y"][:ROWS].astype(np.int64)
    else:
        rng = np.random.default_rng(0)
        true = rng.integers(CLASSES, size=ROWS)
        x = rng.standard_normal((CLASSES, FEATURES))[true] * 0.08 + rng.standard_normal((ROWS, FEATURES))
    return x.astype(np.float32), flipped(true, 0.2, 0), true


def folds(x: Any, given: Any) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    split = StratifiedKFold(5, shuffle=True, random_state=0)
    p = cross_val_predict(LogisticRegression(), x, given, cv=split, method="predict_proba")
    return p[np.arange(len(p)), given]


def fast(x: Any, given: Any) -> Any:
    from pars import audit

    return audit.from_features(x, given).label_right_prob


def fit(x: Any, given: Any) -> Any:
    from pars import PARSClassifier

    return PARSClassifier(random_state=0).fit(x, given).audit().label_right_prob


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", default="folds,fast,fit", help="with commas")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import sklearn.linear_model
    import torch

    torch.set_num_threads(1)
    x, given, true = rows(options.features)
    parts: dict[str, Callable[[Any, Any], Any]] = {"folds": folds, "fast": fast, "fit": fit}
    seconds: dict[str, list[float]] = {name: [] for name in options.only.split(",")}
    found: dict[str, Any] = {}
    for _ in range(options.repeats):
        for name, times in seconds.items():
            begun = time.process_time()
            quality = parts[name](x, given)
            times.append(round(time.process_time() - begun, 2))
            found[name] = ranking(given != true, quality)
    line: dict[str, Any] = {
        "rows": "made" if options.features is None else options.features.name,
        "cpu_seconds": seconds,
    }
    line |= {
        f"{name}_ratio": round(statistics.median(times) / statistics.median(seconds["folds"]), 3)
        for name, times in seconds.items()
        if name != "folds" and "folds" in seconds
    }
    line |= {"detection": found, "scikit-learn": sklearn.__version__, "command": "python benchmarks/audit_speed.py"}
    with PATH.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line) if options.json else "\n".join(f"{key}: {value}" for key, value in line.items()))


if __name__ == "__main__":
    main()
