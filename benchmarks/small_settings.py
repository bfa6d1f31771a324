"""Settings of small runs that no paper gives, chosen by held-out given labels on digits; no true label is looked at.

    python benchmarks/small_settings.py          # trains what is missing in results/small-settings.jsonl, prints it

A fifth of the given labels, as wrong as the others, is held out and judges: mean agreement at the last epoch over
symmetric noise of 50 % and pair noise of 40 %, one seed that no table has. One thread.
"""

from __future__ import annotations

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
GRIDS: dict[str, list[dict[str, Any]]] = {
    "noise-adaptation": LAYER,
    "noise-adaptation-complex": LAYER,
    "jnpl": [{"ln_neg": draws, "weight": weight} for draws, weight in product((None, 1), (0.01, 0.1))],
    "elr": [{"weight": weight} for weight in (3.0, 7.0, 10.0)],
}
SEED = 10
PATH = RESULTS / "small-settings.jsonl"


def cells() -> Iterator[Cell]:
    judged = {"data": {"holdout": 0.2}, "train": {"evaluate_every": 20}}
    for method, grid in GRIDS.items():
        for changes in grid:
            row = ", ".join(f"{key} {value}" for key, value in changes.items())
            for setting, noise in {"sym 50 %": symmetric(0.5), "pair 40 %": PAIR}.items():
                yield Cell(setting, f"{method}: {row}", "digits", noise, method, SEED, judged | {"method": changes})


def show() -> None:
    """Best first in each method, by the mean over both settings."""
    lines = done(PATH)
    print("| method and setting | held-out agreement, mean % |\n|---|---|")
    for method in GRIDS:
        rows = {line["row"] for line in lines if line["method"] == method}
        means = {row: statistics.fmean(line["holdout"] for line in lines if line["row"] == row) for row in rows}
        for row in sorted(means, key=lambda row: -means[row]):
            print(f"| {row} | {means[row]:.2f} |")


def main() -> None:
    torch.set_num_threads(1)
    have = {(line["setting"], line["row"]) for line in done(PATH)}
    for cell in cells():
        if (cell.setting, cell.row) in have:
            continue
        line = train(cell, configuration(cell, None, None)) | {"command": "python benchmarks/small_settings.py"}
        with PATH.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{cell.setting}, {cell.row}: {line['holdout']:.2f} %", flush=True)
    show()


if __name__ == "__main__":
    main()
