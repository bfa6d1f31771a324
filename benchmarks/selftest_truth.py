"""What `pars selftest` says of AUROC and precision, beside the truth, on sets whose labels were partly wrong before.

    python benchmarks/selftest_truth.py --features cifar10-lite0.npz --root DATA      # results/selftest-truth.jsonl
    … --show    only print what is there

The self-test flips 10 % of the given labels and knows nothing of those that were wrong before; the truth counts both.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import roc_auc_score

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.audit_cases import flipped
from pars import data
from pars.fitting import FitSettings, fit_table
from pars.fitting.rows import read_rows
from pars.fitting.self_test import flip_labels, judge

PATH = Path(__file__).parent.parent / "results" / "selftest-truth.jsonl"
FLIP, ROWS = 0.1, 3000


def table(load: Callable[..., Any], rate: float) -> Callable[[int, Any], Any]:
    def rows(seed: int, _: Any) -> Any:
        x, true = load(return_X_y=True)
        return x.astype(np.float32), flipped(true.astype(np.int64), rate, seed), true

    return rows


def human(which: str) -> Callable[[int, Any], Any]:
    def rows(seed: int, options: Any) -> Any:
        with np.load(options.features) as file:
            x, true = file["x"], file["y"].astype(np.int64)
        people = data.human_labels(options.root / "CIFAR-10_human.pt", which, true_labels=true, n_classes=10)
        some = np.random.default_rng(seed).permutation(len(x))[:ROWS]
        return x[some].astype(np.float32), np.asarray(people)[some].astype(np.int64), true[some]

    return rows


SETS = {
    "wine, 25 % wrong": table(load_wine, 0.25),
    "breast cancer, 20 % wrong": table(load_breast_cancer, 0.2),
    "digits, 20 % wrong": table(load_digits, 0.2),
    "digits, 40 % wrong": table(load_digits, 0.4),
    "CIFAR-10N aggre, 3 000 rows": human("aggre"),
    "CIFAR-10N worse, 3 000 rows": human("worse"),
}


def judged(name: str, seed: int, options: Any) -> dict[str, Any]:
    x, given, true = SETS[name](seed, options)
    rows = read_rows(x, given)
    order = np.array([int(label) for label in rows.classes])  # class numbers of the table to those of the set
    after = flip_labels(rows.labels, len(rows.classes), FLIP, seed)
    result = fit_table(replace(rows, labels=after), FitSettings(seed=seed), true_labels=rows.labels)
    said, report, wrong = judge(result, rows.labels, after), result.audit, order[after] != true
    flagged = report.is_label_issue
    return {
        "wrong": round(float(wrong.mean()), 4),
        "auroc": [round(said.auroc_low, 4), round(said.auroc, 4), round(said.auroc_high, 4)],
        "true_auroc": round(float(roc_auc_score(wrong, -report.label_right_prob)), 4),
        "precision": [round(said.precision_low, 4), round(said.precision, 4), round(said.precision_high, 4)],
        "true_precision": round(float(wrong[flagged].mean()), 4) if flagged.any() else None,
        "flagged": int(flagged.sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--show", action="store_true", help="only print what is there")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lines = [json.loads(line) for line in PATH.read_text().splitlines()] if PATH.exists() else []
    have = {(line["set"], line["seed"]) for line in lines}
    for seed in options.seeds:
        for name in () if options.show else SETS:
            if (name, seed) not in have and (options.features or "CIFAR" not in name):
                lines.append({"set": name, "seed": seed, **judged(name, seed, options)})
                with PATH.open("a") as file:
                    file.write(json.dumps(lines[-1] | {"command": "python benchmarks/selftest_truth.py"}) + "\n")
    print("| set | seed | AUROC: said (range), true | precision: said (range), true |\n|---|---|---|---|")
    for line in lines:
        low, said, high = line["auroc"]
        least, expected, most = line["precision"]
        print(
            f"| {line['set']} | {line['seed']} | {said:.3f} ({low:.3f}–{high:.3f}), {line['true_auroc']:.3f} | "
            f"{expected:.3f} ({least:.3f}–{most:.3f}), {line['true_precision']} |"
        )


if __name__ == "__main__":
    main()
