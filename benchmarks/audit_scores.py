"""pars.audit.score against cleanlab's five label-quality scores on the same out-of-fold probabilities.

    python benchmarks/audit_scores.py --oof label_error_oof.npz      # writes results/audit-scores.jsonl, a minute

The file holds, for the sets synthetic20, aggre and worse (CIFAR-10 with synthetic and with human labels), SET_given,
SET_true, and probabilities SET_resnet18 and SET_swin [50000, 10] as published with cleanlab's label-error benchmark.
Needs `pip install -e '.[bench]'`. pars gets probabilities and labels, nothing else; true labels only judge.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from cleanlab.rank import get_label_quality_scores
from sklearn.metrics import average_precision_score, roc_auc_score

from pars import audit

RESULTS = Path(__file__).parent.parent / "results" / "audit-scores.jsonl"
SETS, MODELS = ("synthetic20", "aggre", "worse"), ("resnet18", "swin")
BINS = 15
Floats = npt.NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oof", type=Path, required=True)
    options = parser.parse_args()
    with np.load(options.oof) as file:
        lines = [
            cell(name, model, file[f"{name}_{model}"], file[f"{name}_given"], file[f"{name}_true"])
            for name in SETS
            for model in MODELS
        ]
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in lines))
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


def cleanlab_scores(p: npt.NDArray[np.float16], labels: npt.NDArray[np.int64]) -> dict[str, Floats]:
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
    """How well low quality finds wrong labels."""
    return {
        "auroc": round(float(roc_auc_score(wrong, -quality)), 5),
        "ap": round(float(average_precision_score(wrong, -quality)), 5),
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
        "set          model     pars AUROC/AP   default         best of five    ECE    noise: true, said, range",
    ]
    beats: dict[str, list[bool]] = {}
    for line in lines:
        pars, theirs = line["pars"], line["cleanlab"]
        best = {key: max(score[key] for score in theirs.values()) for key in pars}
        for key in pars:
            beats.setdefault(f"{key} > default", []).append(pars[key] > theirs["self_confidence"][key])
            beats.setdefault(f"{key} > best of five", []).append(pars[key] > best[key])
        rate = line["noise_rate"]
        beats.setdefault("ECE ≤ .05", []).append(line["ece"] <= 0.05)
        beats.setdefault("true noise rate in range", []).append(rate["low"] <= rate["true"] <= rate["high"])
        pairs = (f"{s['auroc']:.4f}/{s['ap']:.4f}" for s in (pars, theirs["self_confidence"], best))
        noise = f"{rate['true']:.3f}, {rate['pars']:.3f}, {rate['low']:.3f}–{rate['high']:.3f}"
        out.append(f"{line['set']:<12} {line['model']:<9} {'   '.join(pairs)}   {line['ece']:.3f}  {noise}")
    out += [f"{name}: {sum(holds)} of {len(holds)}" for name, holds in beats.items()]
    error = np.mean([abs(line["noise_rate"]["pars"] - line["noise_rate"]["true"]) for line in lines])
    return "\n".join([*out, f"mean error of the noise rate: {error:.4f}"])


if __name__ == "__main__":
    main()
