"""pars.audit.score beside cleanlab's three scores on small sets and weak models; adds what results/ lacks.

    python benchmarks/audit_small.py --oof label_error_oof.npz --text TEXT --features DIR --root DATA
    … --draws 5      fewer draws of each cell     … --show   only print what is there     … --work DIR   folds, cached

Cells are those of benchmarks/audit_cases.py. Every score gets the same probabilities and labels; true labels only
judge. cleanlab's scores are written here from their formulas. One line of JSON per cell and draw in
results/audit-small.jsonl.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score, roc_auc_score

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.audit_cases import Case, Files, from_features, published
from pars import audit

PATH = Path(__file__).parent.parent / "results" / "audit-small.jsonl"
COMMAND = "python benchmarks/audit_small.py --oof label_error_oof.npz --text TEXT --features DIR --root DATA"
SIMPLE = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
BINS = 15
Floats = npt.NDArray[np.float64]


def simple_scores(p: Floats, labels: npt.NDArray[np.int64]) -> dict[str, Floats]:
    """cleanlab's three label-quality scores: low = suspect."""
    rows = np.arange(len(p))
    own, others = p[rows, labels], p.copy()
    others[rows, labels] = -np.inf
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1) / np.log(p.shape[1])
    weighted = entropy / np.maximum(own, 1e-6)
    return {
        "self_confidence": own,
        "normalized_margin": (own - others.max(axis=1) + 1) / 2,
        "confidence_weighted_entropy": np.log1p(weighted) / np.maximum(weighted, 1e-6),
    }


def ranking(wrong: npt.NDArray[np.bool_], quality: Floats) -> dict[str, float]:
    """How well low quality finds wrong labels; `fnr`: the share missed when flagging as many rows as are wrong."""
    flagged = np.argsort(quality, kind="stable")[: int(wrong.sum())]
    return {
        "auroc": round(float(roc_auc_score(wrong, -quality)), 5),
        "ap": round(float(average_precision_score(wrong, -quality)), 5),
        "fnr": round(1 - float(wrong[flagged].mean()), 5),
    }


def calibration_error(probability: Floats, right: npt.NDArray[np.bool_]) -> float:
    """Expected calibration error over 15 bins of equal width."""
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    gaps = [
        (bins == k).mean() * abs(probability[bins == k].mean() - right[bins == k].mean())
        for k in range(BINS)
        if (bins == k).any()
    ]
    return float(sum(gaps))


def judge(case: Case) -> dict[str, Any]:
    wrong = case.wrong
    report = audit.score(case.p, case.given)
    flagged = report.is_label_issue & wrong
    suggested, predicted = report.suggested == case.true, case.p.argmax(axis=1) == case.true
    return {
        "pars": ranking(wrong, report.label_right_prob),
        **{name: ranking(wrong, values) for name, values in simple_scores(case.p, case.given).items()},
        "ece": round(calibration_error(report.label_right_prob, ~wrong), 4),
        "noise_rate": {
            "true": round(float(wrong.mean()), 4),
            "pars": round(report.noise_rate, 4),
            "low": round(report.noise_rate_low, 4),
            "high": round(report.noise_rate_high, 4),
        },
        "can_judge": report.can_judge,
        "suggestions_right": round(float(suggested[flagged].mean()), 4) if flagged.any() else None,
        "predictions_right": round(float(predicted[flagged].mean()), 4) if flagged.any() else None,
    }


def show() -> None:
    cells: dict[str, list[dict[str, Any]]] = {}
    for line in read():
        cells.setdefault(line["cell"], []).append(line)
    print("| cell | draws | AUROC: pars, best simple | AP | FNR | ECE | noise rate: true, pars | in range | judged |")
    print("|---|---|---|---|---|---|---|---|---|")
    gaps, errors, inside = [], [], []
    for name, lines in cells.items():

        def mean(*path: str, lines: list[dict[str, Any]] = lines) -> float:
            values = [line[path[0]] if len(path) == 1 else line[path[0]][path[1]] for line in lines]
            return float(np.mean(values))

        pairs = []
        for metric in ("auroc", "ap", "fnr"):
            best = (min if metric == "fnr" else max)(mean(score, metric) for score in SIMPLE)
            pairs.append((mean("pars", metric), best))
        gaps.append([own - best for own, best in pairs[:2]])
        errors.append(mean("ece"))
        held = [line["noise_rate"]["low"] <= line["noise_rate"]["true"] <= line["noise_rate"]["high"] for line in lines]
        inside += held
        judged = sum(bool(line["can_judge"]) for line in lines)
        figures = " | ".join(f"{own:.4f}, {best:.4f}" for own, best in pairs)
        rate = f"{mean('noise_rate', 'true'):.3f}, {mean('noise_rate', 'pars'):.3f}"
        print(
            f"| {name} | {len(lines)} | {figures} | {mean('ece'):.3f} | {rate} | {sum(held)}/{len(held)} | "
            f"{judged}/{len(lines)} |"
        )
    if gaps:
        table = np.array(gaps)
        print(f"\ncells with AUROC, AP more than 0.003 below the best simple score: {(table < -0.003).sum(axis=0)}")
        print(f"above it: {(table > 0).sum(axis=0)} of {len(table)}; mean gap {table.mean(axis=0).round(4)}")
        print(f"ECE at most 0.06: {sum(e <= 0.06 for e in errors)} of {len(errors)}; mean {np.mean(errors):.3f}")
        print(f"true noise rate in the range: {sum(inside)} of {len(inside)}")


def read() -> list[dict[str, Any]]:
    return [json.loads(line) for line in PATH.read_text().splitlines()] if PATH.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oof", type=Path, default=Path("label_error_oof.npz"))
    parser.add_argument("--text", type=Path, default=Path("text"))
    parser.add_argument("--features", type=Path, default=Path())
    parser.add_argument("--root", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("audit-folds"))
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--show", action="store_true", help="only print what is there")
    options = parser.parse_args()
    if not options.show:
        warnings.simplefilter("ignore")
        files = Files(options.oof, options.text, options.features, options.root)
        have = {(line["cell"], line["draw"]) for line in read()}
        for cell in (*published(files), *from_features(files, options.work)):
            for draw in range(min(options.draws, cell.draws)):
                if (cell.name, draw) in have:
                    continue
                found = judge(cell.make(draw))
                with PATH.open("a") as file:
                    file.write(json.dumps({"cell": cell.name, "draw": draw, **found, "command": COMMAND}) + "\n")
    show()


if __name__ == "__main__":
    main()
