"""All of CIFAR-10 from pixels at counted budgets: trains what results/fast.jsonl lacks, in the order of ROWS.

    python benchmarks/fast.py --root DATA --work RUNS            # hours on two cores; stop it, call it again
    … --only sym50                only rows whose name holds this
    … --recipes                   instead the trials behind the settings: RECIPES, into results/fast-recipes.jsonl
    … --convolution direct        without a C++ compiler: longer, and the same up to rounding
    … --show                      only print what is there, and draw accuracy over FLOP into docs/fast-*.svg

RUNS holds a folder per row; a row that was stopped goes on where it was and ends in the same bytes. DATA holds
cifar-10-batches-py and CIFAR-10_human.pt. `last`, `ema` and `best` are test accuracies in %: of the last epoch's
weights, of their average, and of the best evaluated average (chosen by the test set: optimistic), each from one look at
an image; `mirrored` is `ema` where predictions are the mean over an image and its mirror image, as the presets predict.
Every fourth epoch is tested (earlier lines of the file, and where the best epoch is selected: every second), and
nothing is recorded for an audit.
`curve` has stage, FLOP so far, `last` and `ema` of every tested epoch; `trace` (later lines) beside it, in %:
`mirrored`, the wrong labels that the network predicts (`memorized`; of the rows drawn), the rows that the teacher is
sure of, and how many of these it is right about.
Recipes hold out a tenth of the given labels; `held_out` is the share of these that the averaged weights agree with.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from pars import report, run
from pars.engine import Interrupted, RunFolder, show_progress
from pars.errors import UserError
from pars.models import Convolution
from pars.noise import NoiseConfig

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.tables import RESULTS, done, symmetric

PATH, RECIPES_PATH = RESULTS / "fast.jsonl", RESULTS / "fast-recipes.jsonl"
DOCS = Path(__file__).parents[1] / "docs"
PLOTS = {
    "sym50": "CIFAR-10, 50 000 images, 50 % symmetric noise; names say method and budget in PFLOP",
    "sym80": "CIFAR-10, 50 000 images, 80 % symmetric noise; names say method and budget in PFLOP",
}
EARLY_STOPPING: dict[str, Any] = {"data": {"holdout": 0.1}, "train": {"select": "best-epoch"}}
ALL_LABELS: dict[str, Any] = {"sampling": "uniform", "agreement_start": 1.0}  # all labels alike, to the end


@dataclass(frozen=True)
class Row:
    """One run."""

    preset: str
    method: str
    noise: NoiseConfig
    budget: float  # PFLOP
    changes: dict[str, Any] = field(default_factory=dict)


HALF, MOST, AS_PRESET = symmetric(0.5), symmetric(0.8), NoiseConfig()
ROWS: dict[str, Row] = {
    "sym50 0.6 pars-fast": Row("cifar10-fast", "pars-fast", HALF, 0.6),
    "sym50 0.6 warmup": Row("cifar10-fast", "warmup", HALF, 0.6),
    "sym80 0.6 pars-fast": Row("cifar10-fast", "pars-fast", MOST, 0.6),
    "sym80 0.6 warmup": Row("cifar10-fast", "warmup", MOST, 0.6),
    "sym80 0.3 warmup, lr 0.02": Row("cifar10-fast", "warmup", MOST, 0.3, {"train": {"lr": 0.02}}),
    "worse 0.3 pars-fast": Row("cifar10n-fast", "pars-fast", AS_PRESET, 0.3),
    "worse 0.3 warmup": Row("cifar10n-fast", "warmup", AS_PRESET, 0.3),
    "worse 0.3 ce, early stopping": Row("cifar10n-fast", "ce", AS_PRESET, 0.3, EARLY_STOPPING),
    "low resource 0.3 pars-fast": Row("cifar10-low-resource-fast", "pars-fast", HALF, 0.3),
    "low resource 0.3 warmup": Row("cifar10-low-resource-fast", "warmup", HALF, 0.3),
    "sym50 0.3 warmup": Row("cifar10-fast", "warmup", HALF, 0.3),
    "sym50 0.3 pars-fast": Row("cifar10-fast", "pars-fast", HALF, 0.3),
    "sym50 0.3 without pseudo loss": Row("cifar10-fast", "pars-fast", HALF, 0.3, {"method": {"pseudo": False}}),
    "sym50 0.3 without NL": Row(
        "cifar10-fast", "pars-fast", HALF, 0.3, {"method": {"raw_negative": "none", "pseudo_negative": False}}
    ),
    "sym50 1 pars-fast": Row("cifar10-fast", "pars-fast", HALF, 1.0),
    "sym50 0.6 pars-fast, no agreement": Row(
        "cifar10-fast", "pars-fast", HALF, 0.6, {"method": {"agreement_start": 1.0}}
    ),
    "sym50 0.6 pars-fast, lr 0.02": Row(
        "cifar10-fast", "pars-fast", HALF, 0.6, {"train": {"lr": 0.02}, "method": ALL_LABELS}
    ),
    "worse 0.3 pars-fast, all labels": Row("cifar10n-fast", "pars-fast", AS_PRESET, 0.3, {"method": ALL_LABELS}),
}


def recipe(method: str, noise: NoiseConfig, train: dict[str, Any], budget: float = 0.06, **settings: Any) -> Row:
    """What differs between recipes is said, so that a row means the same if the preset changes in it."""
    changes = {
        "data": {"holdout": 0.1},
        "model": {"width": 32},
        "views": {"pad_mode": "reflect"},
        "train": {"dynamics_every": 0} | train,
        "method": ({"warm_up_share": 0.4} | ALL_LABELS if method == "pars-fast" else {}) | settings,
    }
    return Row("cifar10-fast", method, noise, budget, changes)


def muon(lr: float, **changes: Any) -> dict[str, Any]:
    return {"optimizer": "muon", "lr": lr, "schedule": "cosine", "batch_size": 256} | changes


SGD: dict[str, Any] = {"optimizer": "sgd", "lr": 0.1, "schedule": "cosine", "batch_size": 256}
GCE7, GCE5 = "gce(q=0.7)", "gce(q=0.5)"
AVERAGE: dict[str, Any] = {"temporal_teacher": False}
RECIPES: dict[str, Row] = {
    "warmup, lr 0.04": recipe("warmup", HALF, muon(0.04), loss=GCE7),
    "warmup, lr 0.02": recipe("warmup", HALF, muon(0.02), loss=GCE7),
    "warmup, lr 0.08": recipe("warmup", HALF, muon(0.08), loss=GCE7),
    "warmup, SGD 0.1": recipe("warmup", HALF, SGD, loss=GCE7),
    "warmup, lr 0.04, q 0.5": recipe("warmup", HALF, muon(0.04), loss=GCE5),
    "warmup, lr 0.04, batches of 128": recipe("warmup", HALF, muon(0.04, batch_size=128), loss=GCE7),
    "pars-fast, lr 0.04, one view": recipe("pars-fast", HALF, muon(0.04), 0.2, robust=GCE7),
    "pars-fast, lr 0.04, one view, averaged teacher": recipe(
        "pars-fast", HALF, muon(0.04), 0.2, robust=GCE7, **AVERAGE
    ),
    "warmup, lr 0.04, 0.2 PFLOP": recipe("warmup", HALF, muon(0.04), 0.2, loss=GCE7),
    "sym80 warmup, lr 0.02": recipe("warmup", MOST, muon(0.02), loss=GCE7),
    "sym80 warmup, lr 0.04": recipe("warmup", MOST, muon(0.04), loss=GCE7),
    "sym80 warmup, lr 0.01": recipe("warmup", MOST, muon(0.01), loss=GCE7),
}


def configuration(row: Row, root: Path, convolution: Convolution) -> run.RunConfig:
    config = run.overlay(run.preset(row.preset, row.budget)(row.noise, row.method), row.changes)
    model = replace(config.model, convolution=convolution)
    # A tenth fewer passes, and the same weights; unless the tested epochs are those that may be selected.
    train = replace(config.train, dynamics_every=0)
    if train.select == "last":
        train = replace(train, evaluate_every=4)
    return replace(config, data=replace(config.data, root=str(root)), model=model, train=train)


def train(name: str, row: Row, root: Path, folder: Path, convolution: Convolution) -> dict[str, Any]:
    wanted = configuration(row, root, convolution)
    if RunFolder(folder).config.exists():
        other = run.differences(run.canonical(wanted), run.open_run(folder)[1])
        if other:
            raise UserError(f"{folder} holds a run with other settings: {', '.join(other)}")
        result = run.resume(folder, callback=show_progress(), title=name)
    else:
        result = run.train(wanted, folder, callback=show_progress(), title=name)
    lines = report.read_metrics(RunFolder(folder).metrics)
    tested = [line for line in lines if "test" in line]
    ended = next(line for line in tested if line["epoch"] == result.get("selected", tested[-1])["epoch"])
    return {
        "row": name,
        "preset": row.preset,
        "method": row.method,
        "noise": {key: getattr(wanted.noise, key) for key in ("kind", "rate", "labels")},
        "changes": row.changes,
        "width": wanted.model.width,
        "convolution": wanted.model.convolution,
        "batch_size": wanted.train.batch_size,
        "seed": 0,
        "budget": row.budget,
        "flop": result["flop"],
        "flop_by_stage": result["flop_by_stage"],
        "epochs": result["epochs"],
        "images": result["images"],
        "last": ended["test"]["raw"],
        "ema": ended["test"]["ema"],
        **({"mirrored": ended["test"]["mirrored"]} if "mirrored" in ended["test"] else {}),
        "best": max(line["test"]["ema"] for line in tested),
        **({"held_out": ended["holdout"]["ema"]} if "holdout" in ended else {}),
        "curve": [[line["stage"], line["flop"], line["test"]["raw"], line["test"]["ema"]] for line in tested],
        "trace": [traced(line) for line in tested],
        "commit": commit(),
        "command": "python benchmarks/fast.py --root DATA --work RUNS" + (" --recipes" if name in RECIPES else ""),
    }


def traced(line: dict[str, Any]) -> dict[str, float]:
    """What an epoch's line says of the network beside its accuracy, in %: see the head of this file."""
    raw, pseudo = (line.get("selection", {}).get(batch, {}) for batch in ("raw", "pseudo"))
    found = {
        "mirrored": line["test"].get("mirrored"),
        "memorized": 100 * raw["memorized"] if "memorized" in raw else None,
        "sure": 100 * pseudo["selected"] / pseudo["rows"] if pseudo.get("rows") else None,
        "sure_right": 100 * pseudo["pseudo_accuracy_selected"] if "pseudo_accuracy_selected" in pseudo else None,
    }
    return {"epoch": line["epoch"]} | {key: round(value, 2) for key, value in found.items() if value is not None}


def commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    return found.stdout.strip()


def show(path: Path) -> None:
    columns = "run | PFLOP | by stage | epochs | last | EMA | mirrored | best | held-out"
    print(f"| {columns} |\n|{'---|' * (1 + columns.count('|'))}")
    for line in done(path):
        stages = ", ".join(f"{stage} {flop / 1e15:.2f}" for stage, flop in line["flop_by_stage"].items())
        keys = ("last", "ema", "mirrored", "best", "held_out")
        numbers = " | ".join(f"{line[key]:.2f}" if key in line else "" for key in keys)
        print(f"| {line['row']} | {line['flop'] / 1e15:.2f} | {stages} | {line['epochs']} | {numbers} |")


def plot(setting: str, title: str) -> None:
    """Accuracy over FLOP of the rows whose name begins with this, into docs/."""
    curves = {
        line["row"].removeprefix(f"{setting} "): [
            {"stage": stage, "flop": flop, "test": {"raw": raw, "ema": ema}} for stage, flop, raw, ema in line["curve"]
        ]
        for line in done(PATH)
        if line["row"].startswith(f"{setting} ") and not line["changes"]
    }
    if curves:
        report.accuracy_over_flop(curves, DOCS / f"fast-{setting}.svg", title=title)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--convolution", choices=get_args(Convolution), default="winograd")
    parser.add_argument("--recipes", action="store_true", help="trials behind the presets' settings")
    parser.add_argument("--show", action="store_true", help="only print what is there")
    options = parser.parse_args()
    path, rows = (RECIPES_PATH, RECIPES) if options.recipes else (PATH, ROWS)
    if not options.show:
        if options.root is None or options.work is None:
            parser.error("--root and --work are needed to train")
        for name, row in rows.items():
            # Read anew each time: another process may train other rows.
            if options.only not in name or any(line["row"] == name for line in done(path)):
                continue
            folder = options.work / name.replace(" ", "-").replace(",", "")
            try:
                line = train(name, row, options.root, folder, options.convolution)
            except Interrupted as stop:
                print("stopped and saved; the same command goes on", flush=True)
                sys.exit(stop.exit_code)
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{name}: {line['ema']:.2f} %", flush=True)
    show(path)
    for setting, title in PLOTS.items():
        plot(setting, title)


if __name__ == "__main__":
    main()
