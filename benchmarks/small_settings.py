"""Settings of small runs that no paper gives, chosen by held-out given labels; no true label is looked at.

    python benchmarks/small_settings.py                          # digits: trains what is missing, prints it
    python benchmarks/small_settings.py features --features cifar10-lite0.npz --root DATA    # 20 epochs
    python benchmarks/small_settings.py pixels --root DATA       # cifar10-small, trials of 12 epochs instead of 40

Given labels, as wrong as the others, are held out and judge: agreement at the last epoch with one seed that no table
has. Digits: a fifth of the labels, and the mean over symmetric noise of 50 % and pair noise of 40 %; features: those of
40 000 rows, 10 000 others train, over symmetric noise of 50 % and 90 %; pixels: a fifth, symmetric noise of 50 %. One
thread. A run is one line of results/small-settings.jsonl, appended when it ends.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.every_method import PAIR
from benchmarks.tables import RESULTS, Cell, configuration, done, symmetric, train

LAYER = [{"confusion": how, "pretrain_share": share} for how, share in product(("hard", "soft"), (0.1, 0.2, 0.4))]
ELR_PLUS = [{"weight": 3.0, "beta": 0.7}, {"weight": 7.0, "beta": 0.9, "reference_epochs": 250}]  # CIFAR-10's, -100's
DIGITS: dict[str, list[dict[str, Any]]] = {
    "noise-adaptation": LAYER,
    "noise-adaptation-complex": LAYER,
    "jnpl": [
        *({"ln_neg": draws, "weight": weight} for draws, weight in ((1, 0.01), (1, 0.1), (10, 0.01), (30, 0.01))),
        *({"ln_neg": draws, "nl_share": share} for draws, share in product((10, 30), (0.25, 0.5))),
    ],
    "elr": [
        *({"weight": weight} for weight in (3.0, 7.0, 10.0)),
        *({"weight": weight, "beta": 0.9} for weight in (3.0, 7.0)),
    ],
    "elr+": ELR_PLUS,
}
FEATURES: dict[str, list[dict[str, Any]]] = {
    "elr": [{"weight": weight, "beta": beta} for weight, beta in ((3.0, 0.7), (7.0, 0.7), (3.0, 0.9), (7.0, 0.9))],
    "elr+": ELR_PLUS,
}
MIXTURES = [{"lambda_u": weight, "alpha": alpha} for weight, alpha in product((25.0, 5.0, 0.0), (4.0, 0.5))]
PIXELS: dict[str, list[dict[str, Any]]] = {
    "augdesc-ws-waw": MIXTURES,
    "dividemix": MIXTURES,
    "unicon": [{"lambda_u": weight, "alpha": alpha} for weight, alpha in product((30.0, 5.0), (4.0, 0.5))],
    "elr+": ELR_PLUS,
}
GRIDS = {"digits": DIGITS, "features": FEATURES, "pixels": PIXELS}
SEED = 10
PATH = RESULTS / "small-settings.jsonl"


def digits() -> Iterator[Cell]:
    judged = {"data": {"holdout": 0.2}, "train": {"evaluate_every": 20}}
    for method, grid in DIGITS.items():
        for changes in grid:
            for setting, noise in {"sym 50 %": symmetric(0.5), "pair 40 %": PAIR}.items():
                yield Cell(setting, row(method, changes), "digits", noise, method, SEED, judged | {"method": changes})


def features() -> Iterator[Cell]:
    judged = {"data": {"holdout": 0.8}, "train": {"epochs": 20, "evaluate_every": 20}}
    for method, grid in FEATURES.items():
        for changes in grid:
            for setting, noise in {"sym 90 %": symmetric(0.9), "sym 50 %": symmetric(0.5)}.items():
                yield Cell(setting, row(method, changes), "features", noise, method, SEED, judged | {"method": changes})


def pixels() -> Iterator[Cell]:
    judged = {"data": {"holdout": 0.2}, "train": {"epochs": 12, "evaluate_every": 12}}
    for method, grid in PIXELS.items():
        for changes in grid:
            name = row(method, changes)
            yield Cell("sym 50 %", name, "cifar10-small", symmetric(0.5), method, SEED, judged | {"method": changes})


def row(method: str, changes: dict[str, Any]) -> str:
    return f"{method}: " + ", ".join(f"{key} {value}" for key, value in changes.items())


CELLS = {"digits": digits, "features": features, "pixels": pixels}


def show(table: str) -> None:
    """Best first in each method, by the mean over its settings."""
    presets = {cell.preset for cell in CELLS[table]()}
    lines = [line for line in done(PATH) if line["preset"] in presets]
    print("| method and setting | held-out agreement, mean % |\n|---|---|")
    for method in GRIDS[table]:
        rows = {line["row"] for line in lines if line["method"] == method}
        means = {row: statistics.fmean(line["holdout"] for line in lines if line["row"] == row) for row in rows}
        for name in sorted(means, key=lambda name: -means[name]):
            print(f"| {name} | {means[name]:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=CELLS, nargs="?", default="digits")
    parser.add_argument("--features", type=Path)
    parser.add_argument("--root")
    parser.add_argument("--only", help="rows that contain this text")
    options = parser.parse_args()
    torch.set_num_threads(1)
    have = {(line["preset"], line["setting"], line["row"]) for line in done(PATH)}
    for cell in CELLS[options.table]():
        if (cell.preset, cell.setting, cell.row) in have or (options.only or "") not in cell.row:
            continue
        command = " ".join(["python", "benchmarks/small_settings.py", *sys.argv[1:2]])
        line = train(cell, configuration(cell, options.features, options.root)) | {"command": command}
        with PATH.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{cell.setting}, {cell.row}: {line['holdout']:.2f} %", flush=True)
    show(options.table)


if __name__ == "__main__":
    main()
