"""PARSClassifier() with nothing set, beside plain training and cleanlab: trains what results/estimator.jsonl lacks.

    python benchmarks/estimator.py --features cifar10-lite0.npz --root DATA --text TEXT
    … --only PARS,CE      these rows alone      … --sets worse   only sets whose name holds this
    … --show              only print what is there
    … --seed 1            another draw of noise and of everything else, for the mean accuracy
    … --work DIR          what one row needs of another: flags and suggestions, C of LR

Eleven sets (benchmarks/noisy_sets.py says where files come from), one thread, the same rows for everybody:

PARS        PARSClassifier(): test accuracy, and audit() of the same fit: which labels are wrong, what they should be,
            how many.
CE          RobustClassifier("ce"), the same network trained by cross-entropy until held-out noisy labels are best.
LR          logistic regression on standardized features, C by three folds of noisy labels.
cleanlab LR, cleanlab net    cleanlab 2.9 on five-fold probabilities of LR, and of CE: wrong labels found, and the
            test accuracy of CleanLearning, which removes them and fits again.
same rows   how many suggestions of PARS and of cleanlab are right, of the wrong labels that both flag.

True labels only judge. CPU seconds of cleanlab are those of the five folds alone. Needs `pip install -e '.[bench]'`.
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
import numpy.typing as npt
import torch

from pars import PARSClassifier, RobustClassifier

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.audit_scores import calibration_error, cleanlab_scores, ranking
from benchmarks.noisy_sets import SETS, NoisySet, Sources
from benchmarks.tables import RESULTS, done

PATH = RESULTS / "estimator.jsonl"
COMMAND = "python benchmarks/estimator.py --features cifar10-lite0.npz --root DATA --text TEXT"
CLEANLAB = ("cleanlab LR", "cleanlab net")
Flags = npt.NDArray[np.bool_]


def accuracy(predicted: Any, rows: NoisySet) -> float:
    return round(100 * float((np.asarray(predicted) == rows.y_test).mean()), 2)


def pars(rows: NoisySet, arrays: Path) -> dict[str, Any]:
    begun = time.process_time()
    model = PARSClassifier(random_state=rows.seed).fit(rows.x, rows.given)
    report = model.audit()
    seconds = time.process_time() - begun
    wrong = rows.given != rows.true
    assert model.dynamics_ is not None
    keep(arrays, "PARS", report.is_label_issue, report.suggested_label)
    np.savez(arrays.with_suffix(".dynamics.npz"), **model.dynamics_)  # type: ignore[arg-type]
    return fitted(model, rows) | {
        "trials": {loss: round(found, 2) for loss, found in model.trials_.items()},
        "detection": {"posterior": ranking(wrong, report.label_right_prob)},
        "ece": round(calibration_error(report.label_right_prob, ~wrong), 4),
        **issues(report.is_label_issue, wrong, report.suggested_label == rows.true),
        "noise_rate": {
            "pars": round(report.noise_rate, 4),
            "low": round(report.noise_rate_low, 4),
            "high": round(report.noise_rate_high, 4),
            "estimators": {key: round(value, 4) for key, value in report.estimators.items()},
        },
        "warnings": list(report.warnings),
        "cpu_seconds": round(seconds, 1),
    }


def keep(arrays: Path, row: str, flagged: Any, suggested: Any) -> None:
    np.savez(arrays.with_suffix(f".{row}.npz"), flagged=flagged, suggested=suggested)


def cross_entropy(rows: NoisySet, arrays: Path) -> dict[str, Any]:
    begun = time.process_time()
    model = RobustClassifier("ce", random_state=rows.seed).fit(rows.x, rows.given)
    return {"cpu_seconds": round(time.process_time() - begun, 1), **fitted(model, rows)}


def fitted(model: RobustClassifier, rows: NoisySet) -> dict[str, Any]:
    """The test accuracy of a fit; with it the noisy accuracy at the end of each stage, and what was chosen."""
    if not model.history_:  # logistic regression predicted held-out labels clearly better, and was returned
        return {"test": accuracy(model.predict(rows.x_test), rows), "returned": "logistic-regression"}
    stages = {line["stage"]: line["holdout"]["ema"] for line in model.history_ if "holdout" in line}
    return {
        "test": accuracy(model.predict(rows.x_test), rows),
        "holdout": {stage: round(value, 2) for stage, value in stages.items()},
        "selected": model.selected_checkpoint_,
        "epochs": model.config_.train.epochs,
    }


def best_C(x: Any, given: Any) -> float:
    """That which three folds of noisy labels prefer."""
    from sklearn.linear_model import LogisticRegressionCV

    found = LogisticRegressionCV(Cs=np.logspace(-5, 0, 6), cv=3, max_iter=200, use_legacy_attributes=False)
    return float(found.fit(x, given).C_)


def logistic(C: float) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=200))


def regression(rows: NoisySet, arrays: Path) -> dict[str, Any]:
    C = best_C((rows.x - rows.x.mean(axis=0)) / (rows.x.std(axis=0) + 1e-12), rows.given)
    arrays.with_suffix(".C").write_text(repr(C))
    return {"test": accuracy(logistic(C).fit(rows.x, rows.given).predict(rows.x_test), rows), "C": C}


def cleanlab_regression(rows: NoisySet, arrays: Path) -> dict[str, Any]:
    C = float(arrays.with_suffix(".C").read_text())  # of the row above
    return cleanlab("cleanlab LR", logistic(C), rows, arrays) | {"C": C}


def cleanlab_network(rows: NoisySet, arrays: Path) -> dict[str, Any]:
    return cleanlab("cleanlab net", RobustClassifier("ce", random_state=rows.seed), rows, arrays)


def cleanlab(row: str, model: Any, rows: NoisySet, arrays: Path) -> dict[str, Any]:
    """Five folds, cleanlab's scores and flags from them, and a fit on what it does not flag."""
    from cleanlab.classification import CleanLearning
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    begun = time.process_time()
    folds = StratifiedKFold(5, shuffle=True, random_state=rows.seed)
    p = cross_val_predict(model, rows.x, rows.given, cv=folds, method="predict_proba")
    seconds = time.process_time() - begun
    wrong = rows.given != rows.true
    learner = CleanLearning(model, seed=rows.seed)
    found = learner.find_label_issues(labels=rows.given, pred_probs=p)
    learner.fit(rows.x, rows.given, label_issues=found)
    flagged, suggested = found["is_label_issue"].to_numpy(), found["predicted_label"].to_numpy()
    keep(arrays, row, flagged, suggested)
    return {
        "test": accuracy(learner.predict(rows.x_test), rows),
        "detection": {name: ranking(wrong, values) for name, values in cleanlab_scores(p, rows.given).items()},
        **issues(flagged, wrong, suggested == rows.true),
        "noise_rate": {"cleanlab": round(float(flagged.mean()), 4)},
        "cpu_seconds": round(seconds, 1),
    }


def same_rows(rows: NoisySet, arrays: Path) -> dict[str, Any]:
    """Share of right suggestions on the wrong labels that both flag: on those that one flags, who flags less wins.

    With the rows of cleanlab that --work has the flags of.
    """
    ours, out = np.load(arrays.with_suffix(".PARS.npz")), {}
    for row in CLEANLAB:
        if not (path := arrays.with_suffix(f".{row}.npz")).exists():
            continue
        theirs = np.load(path)
        both = ours["flagged"] & theirs["flagged"] & (rows.given != rows.true)
        right = {"pars": ours["suggested"][both], "cleanlab": theirs["suggested"][both]}
        out[row] = {whose: round(float((labels == rows.true[both]).mean()), 4) for whose, labels in right.items()}
        out[row]["rows"] = int(both.sum())
    return {"suggestions_right": out}


def issues(flagged: Flags, wrong: Flags, right: Flags) -> dict[str, Any]:
    """Precision and recall of the flags, and how many suggestions are right where a wrong label is flagged."""
    return {
        "precision": round(float(wrong[flagged].mean()), 4),
        "recall": round(float(flagged[wrong].mean()), 4),
        "suggestions_right_of_wrong_flagged": round(float(right[flagged & wrong].mean()), 4),
    }


ROWS: dict[str, Callable[[NoisySet, Path], dict[str, Any]]] = {
    "PARS": pars,
    "CE": cross_entropy,
    "LR": regression,
    "cleanlab LR": cleanlab_regression,
    "cleanlab net": cleanlab_network,
    "same rows": same_rows,
}
TESTED = ("PARS", "CE", "LR", *CLEANLAB)


def show() -> None:
    lines = {(line["set"], line["row"], line["seed"]): line for line in done(PATH)}
    seeds = sorted({seed for *_, seed in lines})
    complete = [name for name in SETS if all((name, row, 0) in lines for row in ROWS)]
    first = {name: {row: lines[name, row, 0] for row in ROWS} for name in complete}
    print()
    accuracies(
        {
            name: [{row: lines[name, row, s]["test"] for row in TESTED} for s in seeds if (name, "PARS", s) in lines]
            for name in complete
        },
        {name: rows["PARS"]["wrong"] for name, rows in first.items()},
    )
    for part in (detections, noise_rates) if complete else ():
        print()
        part(first)
    for name in SETS:
        if missing := [row for row in ROWS if (name, row, 0) not in lines]:
            print(f"{name}: not yet {', '.join(missing)}")


def accuracies(sets: dict[str, list[dict[str, float]]], wrong: dict[str, float]) -> None:
    """Means over the seeds that there are."""
    print(
        f"| test accuracy | wrong labels | seeds | {' | '.join(TESTED)} | PARS − best rival |\n"
        f"|---|---|---|{'---|' * len(TESTED)}---|"
    )
    gains, over_ce = [], []
    for name, runs in sets.items():
        mean = {row: statistics.fmean(run[row] for run in runs) for row in TESTED}
        best = max(mean[row] for row in ("CE", *CLEANLAB))
        gains.append(mean["PARS"] - best)
        over_ce.append(mean["PARS"] - mean["CE"])
        cells = " | ".join(f"{mean[row]:.1f}" for row in TESTED)
        print(f"| {name} | {100 * wrong[name]:.0f} % | {len(runs)} | {cells} | {gains[-1]:+.1f} |")
    print(f"\nnot more than 0.3 below CE and cleanlab: {count(gain >= -0.3 for gain in gains)} of {len(gains)}")
    print(f"more than 1 above CE: {count(gain > 1 for gain in over_ce)} of {len(gains)}")


def detections(sets: dict[str, dict[str, Any]]) -> None:
    """cleanlab's default score on the model that ranks wrong labels better for it, by average precision."""
    print(
        "| AUROC / AP, CPU s | PARS | cleanlab | with | its best score | suggestions right, own flags "
        "| on rows that both flag |"
    )
    print("|---|---|---|---|---|---|---|")
    higher, worst, quicker, quicker_than_net, better, better_on_same = [], [], [], [], [], []
    for name, rows in sets.items():
        own = {key: rows["PARS"]["detection"]["posterior"][key] for key in ("auroc", "ap")}
        model = max(CLEANLAB, key=lambda row: rows[row]["detection"]["self_confidence"]["ap"])
        theirs = rows[model]["detection"]["self_confidence"]
        best = {key: max(score[key] for score in rows[model]["detection"].values()) for key in own}
        higher.append(all(own[key] > theirs[key] for key in own))
        worst.append(min(own[key] - theirs[key] for key in own))
        quicker.append(rows["PARS"]["cpu_seconds"] < rows[model]["cpu_seconds"])
        quicker_than_net.append(rows["PARS"]["cpu_seconds"] < rows["cleanlab net"]["cpu_seconds"])
        right = [rows[row]["suggestions_right_of_wrong_flagged"] for row in ("PARS", model)]
        better.append(right[0] > right[1])
        same = rows["same rows"]["suggestions_right"].get(model)  # none without its flags in --work
        both = "–" if same is None else f"{100 * same['pars']:.1f} / {100 * same['cleanlab']:.1f}"
        better_on_same += [] if same is None else [same["pars"] > same["cleanlab"]]
        cells = [f"{pair['auroc']:.4f} / {pair['ap']:.4f}" for pair in (own, theirs, best)]
        times = [f"{rows[row]['cpu_seconds']:.0f}" for row in ("PARS", model)]
        print(
            f"| {name} | {cells[0]}, {times[0]} | {cells[1]}, {times[1]} | {model.split()[1]} | {cells[2]} | "
            f"{100 * right[0]:.1f} / {100 * right[1]:.1f} | {both} |"
        )
    print(
        f"\nAUROC and AP both above cleanlab's default: {count(higher)} of {len(higher)}, lowest gap {min(worst):+.4f}"
    )
    print(f"less CPU time than its five folds: {count(quicker)} of {len(quicker)}", end="; ")
    print(f"than five folds of the same network: {count(quicker_than_net)}")
    print(f"more suggestions right: {count(better)} of {len(better)}", end=", ")
    print(f"on the same rows {count(better_on_same)} of {len(better_on_same)}")


def noise_rates(sets: dict[str, dict[str, Any]]) -> None:
    print("| noise rate | true | PARS | range | cleanlab LR | cleanlab net | ECE |\n|---|---|---|---|---|---|---|")
    near, inside = [], []
    for name, rows in sets.items():
        true, said = rows["PARS"]["wrong"], rows["PARS"]["noise_rate"]
        near.append(abs(said["pars"] - true) <= 0.03)
        inside.append(said["low"] <= true <= said["high"])
        theirs = " | ".join(f"{rows[row]['noise_rate']['cleanlab']:.3f}" for row in CLEANLAB)
        between = f"{said['low']:.3f}–{said['high']:.3f}"
        print(f"| {name} | {true:.3f} | {said['pars']:.3f} | {between} | {theirs} | {rows['PARS']['ece']:.3f} |")
    print(f"\nwithin 3 points: {count(near)} of {len(near)}; in the range: {count(inside)} of {len(inside)}")


def count(holds: Any) -> int:
    return sum(map(bool, holds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, default=Path("cifar10-lite0.npz"))
    parser.add_argument("--root", type=Path, default=Path("data"))
    parser.add_argument("--text", type=Path, default=Path("text"))
    parser.add_argument("--work", type=Path, default=Path("estimator-arrays"))
    parser.add_argument("--only", default=",".join(ROWS), help="rows, separated by commas")
    parser.add_argument("--sets", default="", help="only sets whose name holds this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="only print what is there")
    options = parser.parse_args()
    if not options.show:
        torch.set_num_threads(1)  # bits depend on the number of threads
        warnings.simplefilter("ignore")
        at = Sources(options.features, options.root, options.text)
        have = {(line["set"], line["row"], line["seed"]) for line in done(PATH)}
        options.work.mkdir(parents=True, exist_ok=True)
        for row in options.only.split(","):
            for name in SETS:
                if (name, row, options.seed) in have or options.sets not in name:
                    continue
                rows = SETS[name](at, options.seed)
                found = ROWS[row](rows, options.work / f"{name}, seed {options.seed}")
                line = {"set": name, "row": row, "seed": options.seed, "wrong": round(rows.wrong, 4), **found}
                with PATH.open("a") as file:
                    file.write(json.dumps(line | {"command": COMMAND}) + "\n")
                print(f"{name}, {row}: {line.get('test', '')} %, {line.get('cpu_seconds', 0)} s", flush=True)
    show()


if __name__ == "__main__":
    main()
