"""Which shares of classes PARS' mean prediction should be drawn to: equal ones, or those of the given labels?

    python benchmarks/class_balance.py --features cifar10-lite0.npz --root DATA      # into results/class-balance.jsonl

Test accuracy of PARSClassifier() with either `prior`: digits, classes 0 to 4 thinned out, and breast cancer (212 and
357 rows) with 30 % of the labels wrong, three seeds; CIFAR-10 features with 40 % asymmetric noise, one. `uneven` is the
commonest class over the rarest, as the labels are given: what the automatic choice goes by.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from pars import PARSClassifier, noise
from pars.noise import NoiseConfig

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.noisy_sets import SETS, NoisySet, Sources
from benchmarks.tables import RESULTS, done

PATH = RESULTS / "class-balance.jsonl"
SEEDS = range(3)


def breast_cancer(_: int) -> tuple[Any, Any]:
    return load_breast_cancer(return_X_y=True)  # type: ignore[no-any-return]


def thinned(share: float) -> Callable[[int], tuple[Any, Any]]:
    """Digits, of whose first five classes only a share is left."""

    def load(seed: int) -> tuple[Any, Any]:
        x, y = load_digits(return_X_y=True)
        kept = (y >= 5) | (np.random.default_rng(seed).random(len(y)) < share)
        return x[kept], y[kept]

    return load


def sets(at: Sources | None) -> Iterator[tuple[str, int, NoisySet]]:
    loaders = {"breast cancer": breast_cancer, "digits, half": thinned(0.5), "digits, a quarter": thinned(0.25)}
    for name, load in loaders.items():
        for kind in ("symmetric", "pair"):
            for seed in SEEDS:
                x, y = load(seed)
                parts = train_test_split(x.astype(np.float32), y, test_size=0.3, random_state=seed, stratify=y)
                rows, test, true, y_test = parts
                config = NoiseConfig(kind=kind, rate=0.3)
                given = noise.apply(config, true, int(y.max()) + 1, seed=seed).labels
                yield f"{name}, {kind} 30 %", seed, NoisySet(rows, given, true, test, y_test, seed)
    if at is not None:
        yield "CIFAR-10, asym 40 %", 0, SETS["CIFAR-10, asym 40 %"](at, 0)


def train(at: Sources | None) -> None:
    have = {(line["set"], line["seed"]) for line in done(PATH)}
    for name, seed, rows in sets(at):
        if (name, seed) in have:
            continue
        counts = np.bincount(rows.given)
        line: dict[str, Any] = {"set": name, "seed": seed, "uneven": round(float(counts.max() / counts.min()), 2)}
        for prior in ("uniform", "labels"):
            model = PARSClassifier(method_params={"prior": prior}, random_state=seed).fit(rows.x, rows.given)
            line[prior] = round(100 * float((model.predict(rows.x_test) == rows.y_test).mean()), 2)
        with PATH.open("a") as file:
            file.write(json.dumps(line | {"command": "python benchmarks/class_balance.py"}) + "\n")


def show() -> None:
    lines = done(PATH)
    print("| set | given: commonest / rarest | equal classes | as given |\n|---|---|---|---|")
    for name in dict.fromkeys(line["set"] for line in lines):
        mean = {
            key: statistics.fmean(line[key] for line in lines if line["set"] == name)
            for key in ("uneven", "uniform", "labels")
        }
        print(f"| {name} | {mean['uneven']:.1f} | {mean['uniform']:.1f} | {mean['labels']:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--root", type=Path, default=Path("data"))
    parser.add_argument("--show", action="store_true", help="only print what is there")
    options = parser.parse_args()
    if not options.show:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        train(None if options.features is None else Sources(options.features, options.root, Path("text")))
    show()


if __name__ == "__main__":
    main()
