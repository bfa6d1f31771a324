"""The tables of docs/method.md: trains what is missing in results/*.jsonl, then prints the table.

    python benchmarks/tables.py digits
    python benchmarks/tables.py stabilizers
    python benchmarks/tables.py features   --features cifar10-lite0.npz --root DATA
    python benchmarks/tables.py search     --features cifar10-lite0.npz --root DATA
    python benchmarks/tables.py ablation   --features cifar10-lite0.npz --root DATA
    python benchmarks/tables.py pixels     --root DATA
    python benchmarks/tables.py short-warm-up --root DATA
    … --part 0/2     only every second missing run: two processes, one core each

cifar10-lite0.npz is made by benchmarks/encode_cifar10.py; DATA holds cifar-10-batches-py and CIFAR-10_human.pt.
A run is one line, appended when it ends, so a stopped table goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from pars import run
from pars.noise import NoiseConfig

RESULTS = Path(__file__).parent.parent / "results"


def symmetric(rate: float) -> NoiseConfig:
    return NoiseConfig(kind="symmetric", rate=rate)


WORSE = NoiseConfig(kind="file", path="CIFAR-10_human.pt", labels="worse")


@dataclass(frozen=True)
class Cell:
    """One training run: a preset, its noise, a method, and what is changed in the configuration."""

    setting: str
    row: str
    preset: str
    noise: NoiseConfig
    method: str
    seed: int
    changes: dict[str, Any] = field(default_factory=dict)


PAPER_ABLATION: dict[str, tuple[str, dict[str, Any]]] = {
    "without NL": ("pars", {"raw_negative": "none", "pseudo_negative": False}),
    "without pseudo loss": ("pars", {"pseudo": False}),
    "NL on pseudo-labels only": ("pars", {"raw_negative": "none"}),
}
READINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "paper, literal": ("pars-paper", {}),
    "paper, NL on the given label": ("pars-paper", {"raw_negative": "given"}),
    "current weights teach": ("pars", {"teacher": "current"}),
    "labels at full weight": ("pars", {"raw_weight": "one"}),
    "labels at full weight, subset means": ("pars", {"raw_weight": "one", "min_share": 0.0}),
    "robust loss on ambiguous rows only": ("pars", {"robust_rows": "ambiguous"}),
    "without class balance": ("pars", {"lambda_R": 0.0}),
    "robust loss on pseudo-labels": ("pars", {"pseudo_positive": "robust"}),
    "balance of the batch alone": ("pars", {"balance_memory": 0.0}),
    "tau 0.8": ("pars", {"tau": 0.8}),
    "tau 0.99": ("pars", {"tau": 0.99}),
}
FEATURES = {"sym 50 %": symmetric(0.5), "sym 90 %": symmetric(0.9), "CIFAR-10N worse": WORSE}
THREE = {"CE": "ce", "warm-up only": "warmup", "PARS": "pars"}


def digits() -> Iterator[Cell]:
    for rate in (0.5, 0.2, 0.8):
        for seed in range(3):
            for row, method in THREE.items():
                yield Cell(f"sym {100 * rate:.0f} %", row, "digits", symmetric(rate), method, seed)


STABILIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "pars": ("pars", {}),
    "robust loss on ambiguous rows only": ("pars", {"robust_rows": "ambiguous"}),
    "raw labels at full weight": ("pars", {"raw_weight": "one"}),
    "self-training at full weight": ("pars", {"trust": "full"}),
    "subset means": ("pars", {"min_share": 0.0}),
    "current weights as teacher": ("pars", {"teacher": "current"}),
    "class balance of the batch alone": ("pars", {"balance_memory": 0.0}),
    "pars-paper": ("pars-paper", {}),
}


def stabilizers() -> Iterator[Cell]:
    """PARS with each stabilizer switched off alone, and the paper's method, which has none."""
    for seed in range(3):
        for rate in (0.5, 0.8):
            for row, (method, changes) in STABILIZERS.items():
                setting = f"sym {100 * rate:.0f} %"
                yield Cell(setting, row, "digits", symmetric(rate), method, seed, {"method": changes})


def features() -> Iterator[Cell]:
    rows = {"data": {"limit": 10_000}}
    for seed in range(3):
        for setting, noise in FEATURES.items():
            for row, method in THREE.items():
                yield Cell(setting, row, "features", noise, method, seed, rows)
    few = {"data": {"labeled": 4_000}, "train": {"steps_per_epoch": 60}}
    for seed in range(3):
        for row, method in THREE.items():
            yield Cell("4 000 of 50 000 labeled, sym 50 %", row, "features", symmetric(0.5), method, seed, few)


def ablation() -> Iterator[Cell]:
    """Further rows of the features table: the paper's own ablation on three seeds, other readings on one."""
    for rows, seeds in ((PAPER_ABLATION, 3), (READINGS, 1)):
        for seed in range(seeds):
            for row, (method, changes) in rows.items():
                for setting, noise in FEATURES.items():
                    yield Cell(
                        setting, row, "features", noise, method, seed, {"data": {"limit": 10_000}, "method": changes}
                    )


GRID = {
    f"lr {lr}, dropout {weak}/{strong}": {
        "train": {"lr": lr},
        "views": {"dropout_weak": weak, "dropout_strong": strong},
    }
    for lr in (0.01, 0.03, 0.1)
    for weak, strong in ((0.1, 0.4), (0.3, 0.5))
}

BEFORE = {"balance_memory": 0.0, "tau": 0.95}  # what the paper has; the default was chosen from these rows
PARS_GRID: dict[str, dict[str, Any]] = {
    "default": {},
    "memory 0, tau 0.95": {"method": BEFORE},
    "memory 0.9, tau 0.95": {"method": BEFORE | {"balance_memory": 0.9}},
    "memory 0.98, tau 0.95": {"method": BEFORE | {"balance_memory": 0.98}},
    "memory 0, tau 0.95, EMA 0.99": {"method": BEFORE, "train": {"ema": 0.99}},
    "min_share 0.25": {"method": {"min_share": 0.25}},
    "warm-up 25 %": {"method": {"warm_up_share": 0.25}},
}


def overlaid(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Two sets of changes, table by table."""
    return {table: a.get(table, {}) | b.get(table, {}) for table in a | b}


def search() -> Iterator[Cell]:
    """The same grid for every method, judged by given labels that were held out: no true label and no test row is used.

    10 000 of the 50 000 rows train, as in the table; the other 40 000 with labels as wrong as theirs judge.
    """
    grid = [(f"{row}, {name}", method, changes) for name, changes in GRID.items() for row, method in THREE.items()]
    grid += [(f"PARS, {name}", "pars", changes) for name, changes in PARS_GRID.items()]
    for row, method, changes in grid:
        for setting, noise in FEATURES.items():
            judged = overlaid(changes, {"data": {"holdout": 0.8}, "train": {"evaluate_every": 20}})
            yield Cell(setting, row, "features", noise, method, 10, judged)


SELDOM = {"train": {"evaluate_every": 8}}  # testing two sets of weights on 10 000 images costs as much as an epoch


def pixels() -> Iterator[Cell]:
    for row in reversed(THREE):  # PARS first: it takes longest
        for rate in (0.8, 0.5, 0.2):
            yield Cell(f"sym {100 * rate:.0f} %", row, "cifar10-small", symmetric(rate), THREE[row], 0, SELDOM)


def stages() -> Iterator[Cell]:
    """From pixels after a deliberately short warm-up: which readings keep what it learned."""
    short = {"train": {"epochs": 16, "evaluate_every": 4}}
    rows = {"warm-up only": ("warmup", {}), "PARS": ("pars", {}), **READINGS}
    shown = ("labels at full weight", "labels at full weight, subset means", "current weights teach", "paper, literal")
    for row in ("warm-up only", "PARS", *shown):
        method, changes = rows[row]
        yield Cell("sym 50 %, 16 epochs", row, "cifar10-small", symmetric(0.5), method, 0, short | {"method": changes})


TABLES: dict[str, tuple[str, Callable[[], Iterator[Cell]]]] = {
    "digits": ("digits", digits),
    "stabilizers": ("stabilizers", stabilizers),
    "features": ("features", features),
    "ablation": ("features", ablation),
    "search": ("search", search),
    "pixels": ("pixels", pixels),
    "short-warm-up": ("pixels", stages),
}


def configuration(cell: Cell, features_file: Path | None, root: str | None) -> run.RunConfig:
    config = run.overlay(run.preset(cell.preset)(cell.noise, cell.method), cell.changes)
    data = replace(config.data, root=root)
    if cell.preset == "features":
        if features_file is None:
            sys.exit("this table needs --features FILE.npz, made by benchmarks/encode_cifar10.py")
        data = replace(data, name=str(features_file))
    train = replace(config.train, dynamics_every=0)  # no label is audited here, and it changes no bit of training
    return replace(config, data=data, train=train, seed=cell.seed, device="cpu")


def train(cell: Cell, config: run.RunConfig) -> dict[str, Any]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result = run.train(config, Path(folder) / "run")
    test = result["test"]
    return {
        "setting": cell.setting,
        "row": cell.row,
        "method": cell.method,
        "preset": cell.preset,
        "seed": cell.seed,
        "changes": cell.changes,
        "last": test["ema"]["last"],
        "holdout": result["holdout"]["ema"]["last"] if "holdout" in result else None,
        "raw": test["raw"]["last"],
        "best": test["ema"]["best"],
        "last10": test["ema"]["last10"],
        "stages": [{"stage": s["stage"], "epoch": s["epoch"], "ema": s["test"]["ema"]} for s in result["stages"]],
        "selection": result["selection"],
        "images": result["images"],
        "flop": result["flop"],
        "seconds": round(time.monotonic() - began, 1),
        "command": " ".join(["python", "benchmarks/tables.py", *sys.argv[1:2]]),
    }


def done(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def show(name: str) -> None:
    """Mean of the last epoch's averaged weights over seeds, and the spread (n seeds); a search by held-out labels."""
    lines, judge = done(RESULTS / f"{name}.jsonl"), "holdout" if name == "search" else "last"
    settings = list(dict.fromkeys(line["setting"] for line in lines))
    digits = 2 if judge == "holdout" else 1  # noisy labels shrink differences
    print(f"\n| {name} | {' | '.join(settings)} |\n|---|{'---|' * len(settings)}")
    for row in dict.fromkeys(line["row"] for line in lines):
        texts = []
        for setting in settings:
            last = [line[judge] for line in lines if (line["row"], line["setting"]) == (row, setting)]
            spread = f" ± {statistics.stdev(last):.1f}" if len(last) > 1 else ""
            texts.append(f"{statistics.fmean(last):.{digits}f}{spread} ({len(last)})" if last else "–")
        print(f"| {row} | {' | '.join(texts)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--root")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--show", action="store_true", help="only print what is there")
    options = parser.parse_args()
    name, cells = TABLES[options.table]
    path = RESULTS / f"{name}.jsonl"
    if not options.show:
        part, parts = (int(number) for number in options.part.split("/"))
        torch.set_num_threads(1)  # bits depend on the number of threads
        have = {(line["setting"], line["row"], line["seed"]) for line in done(path)}
        missing = [c for c in cells() if (c.setting, c.row, c.seed) not in have]
        RESULTS.mkdir(exist_ok=True)
        for cell in missing[part::parts]:
            line = train(cell, configuration(cell, options.features, options.root))
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{cell.setting}, {cell.row}, seed {cell.seed}: {line['last']:.2f} %", flush=True)
    show(name)


if __name__ == "__main__":
    main()
