"""pars.audit.score against cleanlab's five label-quality scores on the same out-of-fold probabilities.

    python benchmarks/audit_scores.py --oof label_error_oof.npz      # writes results/audit-scores.jsonl, a minute
    python benchmarks/audit_scores.py --oof … --ablation             # results/audit-ablation.jsonl: parts left out

The file holds, for the sets synthetic20, aggre and worse (CIFAR-10 with synthetic and with human labels), SET_given,
SET_true, and probabilities SET_resnet18 and SET_swin [50000, 10] as published with cleanlab's label-error benchmark.
Needs `pip install -e '.[bench]'`. pars gets probabilities and labels, nothing else; true labels only judge.
"""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from cleanlab.rank import get_label_quality_scores
from sklearn.metrics import average_precision_score, roc_auc_score

from pars import audit

RESULTS = Path(__file__).parent.parent / "results"
SETS, MODELS = ("synthetic20", "aggre", "worse"), ("resnet18", "swin")
BINS = 15
Floats = npt.NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oof", type=Path, required=True)
    parser.add_argument("--ablation", action="store_true")
    options = parser.parse_args()
    if options.ablation:
        ablation(options.oof)
        return
    with np.load(options.oof) as file:
        lines = [
            cell(name, model, file[f"{name}_{model}"], file[f"{name}_given"], file[f"{name}_true"])
            for name in SETS
            for model in MODELS
        ]
    (RESULTS / "audit-scores.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(table(lines))


def cell(
    name: str, model: str, p: npt.NDArray[np.float16], given: npt.NDArray[Any], true: npt.NDArray[Any]
) -> dict[str, Any]:
    """Every score on one set of probabilities."""
    labels, wrong = given.astype(np.int64), given != true
    report = audit.score(p, labels)
    flagged = report.is_label_issue & wrong
    return {
        "set": name,
        "model": model,
        "pars": ranking(wrong, report.label_right_prob),
        "cleanlab": {key: ranking(wrong, values) for key, values in cleanlab_scores(p, labels).items()},
        "ece": round(calibration_error(report.label_right_prob, ~wrong), 4),
        "ece_self_confidence": round(calibration_error(p[np.arange(len(p)), labels].astype(float), ~wrong), 4),
        "noise_rate": {
            "true": round(float(wrong.mean()), 4),
            "pars": round(report.noise_rate, 4),
            "low": round(report.noise_rate_low, 4),
            "high": round(report.noise_rate_high, 4),
            "estimators": {key: round(value, 4) for key, value in report.estimators.items()},
        },
        "suggestions_right_of_wrong_flagged": round(float((report.suggested_label == true)[flagged].mean()), 4),
        "command": "python benchmarks/audit_scores.py --oof label_error_oof.npz",
    }


# What is put in the place of which part.
VARIANTS: dict[str, tuple[str, Any] | None] = {
    "as it is": None,
    "sure rows at tau 0.15": ("pars.audit.posterior.CONFIDENT_TAU", 0.15),
    "sure rows at tau 0.2": ("pars.audit.posterior.CONFIDENT_TAU", 0.2),
    "sure rows at tau 0.35": ("pars.audit.posterior.CONFIDENT_TAU", 0.35),
    "sure rows at tau 0.5": ("pars.audit.posterior.CONFIDENT_TAU", 0.5),
    "noise the same for all difficulties": ("pars.audit.noise_model.PRIOR_VARIANCE_SLOPE", 1e-9),
    "noise not taken out": ("pars.audit.noise_model.DECONVOLUTIONS", 0),
    "classes not comparable": (
        "pars.audit.posterior.class_thresholds",
        lambda own, labels, n_classes: np.ones(n_classes),
    ),
    "clean probabilities at tau 0.5": ("pars.audit.posterior.clean_temperature", lambda *_: 0.5),
    "clean probabilities at tau 1": ("pars.audit.posterior.clean_temperature", lambda *_: 1.0),
}


def ablation(path: Path) -> None:
    """The same figures with one part changed at a time, and how often pars is above cleanlab's default and best."""
    lines = []
    with np.load(path) as file:
        theirs = {(line["set"], line["model"]): line["cleanlab"] for line in read("audit-scores.jsonl")}
        for variant, change in VARIANTS.items():
            with nullcontext() if change is None else patch(*change):
                cells = [one(file, name, model, theirs[name, model]) for name in SETS for model in MODELS]
            mean = {key: round(float(np.mean([cell[key] for cell in cells])), 4) for key in cells[0]}
            lines.append({"variant": variant, "mean": mean, "largest_ece": max(cell["ece"] for cell in cells)})
            print(json.dumps(lines[-1]), flush=True)
    (RESULTS / "audit-ablation.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def one(file: Any, name: str, model: str, theirs: dict[str, dict[str, float]]) -> dict[str, float]:
    labels, wrong = file[f"{name}_given"].astype(np.int64), file[f"{name}_given"] != file[f"{name}_true"]
    report = audit.score(file[f"{name}_{model}"], labels)
    found = ranking(wrong, report.label_right_prob)
    return found | {
        "ece": round(calibration_error(report.label_right_prob, ~wrong), 4),
        "noise_rate_error": abs(report.noise_rate - float(wrong.mean())),
        "above_best_auroc": float(found["auroc"] > max(score["auroc"] for score in theirs.values())),
        "above_best_ap": float(found["ap"] > max(score["ap"] for score in theirs.values())),
    }


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RESULTS / name).read_text().splitlines()]


def cleanlab_scores(p: npt.NDArray[np.floating[Any]], labels: npt.NDArray[np.int64]) -> dict[str, Floats]:
    """cleanlab's three scores, and the two that it can adjust by class thresholds. Low = suspect."""
    rows = p.astype(np.float64)
    rows /= rows.sum(axis=1, keepdims=True)  # float16 does not sum to one, which cleanlab refuses

    def of(method: str, adjust: bool = False) -> Floats:
        return np.asarray(get_label_quality_scores(labels, rows, method=method, adjust_pred_probs=adjust))

    return {
        "self_confidence": of("self_confidence"),
        "normalized_margin": of("normalized_margin"),
        "confidence_weighted_entropy": of("confidence_weighted_entropy"),
        "adjusted_self_confidence": of("self_confidence", True),
        "adjusted_normalized_margin": of("normalized_margin", True),
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


def table(lines: list[dict[str, Any]]) -> str:
    out = [
        f"{'set':<12} {'model':<9} {'pars AUROC/AP/FNR':<23}{'default':<23}{'best of five':<23}ECE    noise rate",
    ]
    beats: dict[str, list[bool]] = {}
    for line in lines:
        pars, theirs = line["pars"], line["cleanlab"]
        best = {key: (min if key == "fnr" else max)(score[key] for score in theirs.values()) for key in pars}
        for key in pars:
            sign = -1 if key == "fnr" else 1
            default = theirs["self_confidence"][key]
            beats.setdefault(f"{key} better than the default", []).append(sign * pars[key] > sign * default)
            beats.setdefault(f"{key} better than the best of five", []).append(sign * pars[key] > sign * best[key])
        rate = line["noise_rate"]
        beats.setdefault("ECE ≤ .05", []).append(line["ece"] <= 0.05)
        beats.setdefault("true noise rate in range", []).append(rate["low"] <= rate["true"] <= rate["high"])
        pairs = (f"{s['auroc']:.4f}/{s['ap']:.4f}/{s['fnr']:.4f}" for s in (pars, theirs["self_confidence"], best))
        noise = f"{rate['true']:.3f}, {rate['pars']:.3f}, {rate['low']:.3f}–{rate['high']:.3f}"
        out.append(f"{line['set']:<12} {line['model']:<9} {'   '.join(pairs)}   {line['ece']:.3f}  {noise}")
    out += [f"{name}: {sum(holds)} of {len(holds)}" for name, holds in beats.items()]
    error = np.mean([abs(line["noise_rate"]["pars"] - line["noise_rate"]["true"]) for line in lines])
    return "\n".join([*out, f"mean error of the noise rate: {error:.4f}"])


if __name__ == "__main__":
    main()
