"""PARSClassifier() with nothing set, beside what else one would try: trains what results/estimator.jsonl lacks.

    python benchmarks/estimator.py --features cifar10-lite0.npz --root DATA --text TEXT
    … --only PARS,CE      these rows alone
    … --show              only print what is there

Rows: PARS is PARSClassifier(); CE is RobustClassifier("ce"), the same network trained by plain cross-entropy until
held-out noisy labels are best; LR is logistic regression on standardised features, C by three-fold cross-validation on
noisy labels; cleanlab is CleanLearning of that logistic regression (five folds, suspects removed, fitted again). One
seed, one thread; accuracy on clean test rows. benchmarks/noisy_sets.py says where files come from.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pars import PARSClassifier, RobustClassifier

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.noisy_sets import SETS, NoisySet, Sources
from benchmarks.tables import RESULTS, done

PATH = RESULTS / "estimator.jsonl"
COMMAND = "python benchmarks/estimator.py --features cifar10-lite0.npz --root DATA --text TEXT"


def accuracy(predicted: Any, rows: NoisySet) -> float:
    return round(100 * float((np.asarray(predicted) == rows.y_test).mean()), 2)


def robust(estimator: RobustClassifier, rows: NoisySet) -> dict[str, Any]:
    """A fit; with it the noisy accuracy of each stage, and the test accuracy."""
    model = estimator.fit(rows.x, rows.given)
    stages = {line["stage"]: line["holdout"]["ema"] for line in model.history_ if "holdout" in line}
    return {
        "test": accuracy(model.predict(rows.x_test), rows),
        "holdout": {stage: round(value, 2) for stage, value in stages.items()},
        "kept": model.kept_,
        "epochs": model.config_.train.epochs,
    }


def logistic(rows: NoisySet) -> tuple[Any, Any, float]:
    """Standardised rows, and the C that three folds of noisy labels prefer."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.preprocessing import StandardScaler

    scale = StandardScaler().fit(rows.x)
    x, x_test = scale.transform(rows.x), scale.transform(rows.x_test)
    found = LogisticRegressionCV(Cs=np.logspace(-5, 0, 6), cv=3, max_iter=200, use_legacy_attributes=False)
    return x, x_test, float(found.fit(x, rows.given).C_)


def regression(rows: NoisySet) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression

    x, x_test, C = logistic(rows)
    model = LogisticRegression(C=C, max_iter=200).fit(x, rows.given)
    return {"test": accuracy(model.predict(x_test), rows), "C": C}


def cleanlab(rows: NoisySet) -> dict[str, Any]:
    from cleanlab.classification import CleanLearning
    from sklearn.linear_model import LogisticRegression

    x, x_test, C = logistic(rows)
    model = CleanLearning(LogisticRegression(C=C, max_iter=200), seed=0).fit(x, rows.given)
    return {"test": accuracy(model.predict(x_test), rows), "C": C}


ROWS: dict[str, Callable[[NoisySet], dict[str, Any]]] = {
    "PARS": lambda rows: robust(PARSClassifier(random_state=0), rows),
    "CE": lambda rows: robust(RobustClassifier("ce", random_state=0), rows),
    "LR": regression,
    "cleanlab": cleanlab,
}


def show() -> None:
    lines = {(line["set"], line["row"]): line for line in done(PATH)}
    print(f"\n| | wrong labels | {' | '.join(ROWS)} |\n|---|---|{'---|' * len(ROWS)}")
    for name in SETS:
        wrong = next((f"{100 * line['wrong']:.0f} %" for (of, _), line in lines.items() if of == name), "")
        cells = [f"{lines[name, row]['test']:.1f}" if (name, row) in lines else "–" for row in ROWS]
        print(f"| {name} | {wrong} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, default=Path("cifar10-lite0.npz"))
    parser.add_argument("--root", type=Path, default=Path("data"))
    parser.add_argument("--text", type=Path, default=Path("text"))
    parser.add_argument("--only", default=",".join(ROWS), help="rows, separated by commas")
    parser.add_argument("--sets", default="", help="only sets whose name holds this")
    parser.add_argument("--show", action="store_true", help="only print what is there")
    options = parser.parse_args()
    if not options.show:
        torch.set_num_threads(1)  # bits depend on the number of threads
        warnings.simplefilter("ignore")
        at = Sources(options.features, options.root, options.text)
        have = {(line["set"], line["row"]) for line in done(PATH)}
        for row in options.only.split(","):
            for name in SETS:
                if (name, row) in have or options.sets not in name:
                    continue
                rows = SETS[name](at, 0)
                began, cpu = time.monotonic(), time.process_time()
                line = {"set": name, "row": row, "seed": 0, "wrong": round(rows.wrong, 4), **ROWS[row](rows)}
                line |= {"seconds": round(time.monotonic() - began, 1)}
                line |= {"cpu_seconds": round(time.process_time() - cpu, 1), "command": COMMAND}
                with PATH.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(f"{name}, {row}: {line['test']:.2f} %", flush=True)
    show()


if __name__ == "__main__":
    main()
