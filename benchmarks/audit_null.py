"""What an audit says where nothing, or little, can be known: simulated sets, and real ones with shuffled labels.

    python benchmarks/audit_null.py                        # 200 sets, results/audit-null.jsonl, minutes
    python benchmarks/audit_null.py --show                 # only print what is there

Each set has 600 rows, 10 features, 2, 3, 5 or 10 classes, and probabilities of five folds of logistic regression.

no signal       features that have nothing to do with the labels; in every other set a fifth of the labels is flipped
overlap         normal classes that overlap, not one label flipped
overlap, flips  the same with a fifth of the labels flipped
weak signal     normal classes that overlap much, 15 % of the labels flipped
shuffled        digits whose labels were shuffled
clear           classes far apart, 15 % flipped: what an audit should judge

Counted: whether the first line says that the labels cannot be judged; whether the ranges of the noise rate and of the
expected precision of the flagged rows hold the truth. For shuffled labels every label is taken to be right.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.audit_cases import five_folds, flipped
from pars import audit, data

PATH = Path(__file__).parent.parent / "results" / "audit-null.jsonl"
KINDS = {"no signal": 50, "overlap": 50, "overlap, flips": 30, "weak signal": 50, "shuffled": 20, "clear": 30}
DISTANCE = {"no signal": 0.0, "overlap": 0.9, "overlap, flips": 0.9, "weak signal": 0.45, "clear": 4.0}
FLIPS = {"overlap, flips": 0.2, "weak signal": 0.15, "clear": 0.15}
ROWS, FEATURES = 600, 10


def rows(kind: str, seed: int) -> tuple[Any, Any, Any]:
    """Features, given and true labels."""
    rng = np.random.default_rng([seed, *kind.encode()])
    if kind == "shuffled":
        digits = data.digits().train
        some = rng.permutation(len(digits))[:ROWS]
        labels = rng.permutation(digits.labels[some])
        return digits.inputs[some].reshape(ROWS, -1).astype(np.float32), labels, labels
    n_classes = int(rng.choice([2, 3, 5, 10]))
    true = rng.integers(n_classes, size=ROWS)
    centers = rng.standard_normal((n_classes, FEATURES))
    centers *= DISTANCE[kind] / np.linalg.norm(centers, axis=1, keepdims=True)
    x = (centers[true] + rng.standard_normal((ROWS, FEATURES))).astype(np.float32)
    rate = FLIPS.get(kind, 0.2 * (seed % 2) if kind == "no signal" else 0.0)
    return x, flipped(true, rate, seed), true


def judge(kind: str, seed: int) -> dict[str, Any]:
    x, given, true = rows(kind, seed)
    report = audit.score(five_folds(x, given), given)
    review, wrong = report.review(), given != true
    found = float(wrong[review.rows].mean()) if len(review) else None
    return {
        "says_it_cannot_judge": report.headline.startswith("Cannot judge"),
        "noise_rate": [round(v, 4) for v in (float(wrong.mean()), report.noise_rate_low, report.noise_rate_high)],
        "flagged": len(review),
        "precision": None
        if found is None
        else [round(v, 4) for v in (found, review.expected_precision_low, review.expected_precision_high)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="only print what is there")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [json.loads(line) for line in PATH.read_text().splitlines()] if PATH.exists() else []
    have = {(line["kind"], line["seed"]) for line in lines}
    for kind, draws in KINDS.items():
        for seed in range(0 if options.show else draws):
            if (kind, seed) not in have:
                lines.append({"kind": kind, "seed": seed, **judge(kind, seed)})
                with PATH.open("a") as file:
                    file.write(json.dumps(lines[-1] | {"command": "python benchmarks/audit_null.py"}) + "\n")
    print(
        "| kind | sets | says that it cannot judge | noise rate in range | precision in range |\n|---|---|---|---|---|"
    )
    for kind in KINDS:
        here = [line for line in lines if line["kind"] == kind]
        said = sum(line["says_it_cannot_judge"] for line in here)
        rates, precisions = (
            [line[name] for line in here if line[name] is not None] for name in ("noise_rate", "precision")
        )
        inside, expected = (sum(low <= value <= high for value, low, high in some) for some in (rates, precisions))
        print(f"| {kind} | {len(here)} | {said} | {inside} of {len(rates)} | {expected} of {len(precisions)} |")


if __name__ == "__main__":
    main()
