"""Every method on the same data, backbone and views: trains what is missing in results/methods-*.jsonl, prints it.

    python benchmarks/every_method.py digits                # 50 and 80 % symmetric and 40 % pair noise, three seeds
    python benchmarks/every_method.py features --features cifar10-lite0.npz --root DATA
    python benchmarks/every_method.py pixels --root DATA    # cifar10-small, two networks against cross-entropy
    python benchmarks/every_method.py cost                  # seconds and network passes of an epoch, over those of CE
    … --part 0/2     only every second missing run: two processes, one core each
    … --only ce,elr  these methods alone
    … --settings "sym 50 %,pair 40 %"    these columns alone

On digits every method trains for 60 epochs, those of two networks with MixMatch steps for 20. On features all have
the same number of network passes, that of PARS' 20 epochs (a forward with backward is one, a forward alone a third):
cheap methods train for more epochs. Classifiers without a network have no passes to count; they are in this table
alone. One thread each.
A run is one line, appended when it ends, so a stopped table goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pars import run
from pars.classic import CLASSIC, fit_classic
from pars.data import Dataset, Split
from pars.engine import Callback, NetworkCost, RowCounts, Trainer, epoch_costs
from pars.methods import REGISTRY, by_name
from pars.noise import NoiseConfig

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.tables import RESULTS, WORSE, Cell, configuration, done, symmetric, train

PAIR = NoiseConfig(kind="pair", rate=0.4)
FEATURES = {"sym 50 %": symmetric(0.5), "sym 90 %": symmetric(0.9), "CIFAR-10N worse": WORSE}
COMPARED = ("ce", "elr", "disc", "dividemix")  # whose difference is to be known: three seeds on features
EPOCHS = 12  # where an epoch's cost is measured: several in each stage
MANY_PASSES = 4  # an epoch, of two networks: 20 epochs on digits are then about as much work as PARS' 60
PASSES = 68  # PARS: 8 epochs of warm-up, 12 of the main stage with 5 passes each
PASSES_FROM_PIXELS = 136  # 16 and 24


def digits() -> Iterator[Cell]:
    for seed in range(3):
        for setting, noise in {"sym 50 %": symmetric(0.5), "pair 40 %": PAIR, "sym 80 %": symmetric(0.8)}.items():
            for name in REGISTRY:
                costly = by_name(name).networks == 2 and REGISTRY[name].cost > MANY_PASSES
                length = {"epochs": 20} if costly else {}
                yield Cell(setting, name, "digits", noise, name, seed, {"train": {**length, "evaluate_every": 5}})


def features() -> Iterator[Cell]:
    for setting, noise in FEATURES.items():
        for name in REGISTRY:
            changes = {
                "data": {"limit": 10_000},
                "train": {"epochs": epochs_of(name, PASSES), "evaluate_every": 5},
            }
            for seed in range(3 if name in COMPARED else 1):
                yield Cell(setting, name, "features", noise, name, seed, changes)
        for name in CLASSIC:
            yield Cell(setting, name, "features", noise, name, 0, {"data": {"limit": 10_000}})


def pixels() -> Iterator[Cell]:
    """Methods of two networks against cross-entropy: the preset's epochs, and DivideMix with PARS' network passes."""
    for name in ("ce", "elr+", "dividemix", "augdesc-ws-waw", "unicon"):
        length = {"train": {"epochs": 40, "evaluate_every": 8}}
        yield Cell("sym 50 %", name, "cifar10-small", symmetric(0.5), name, 0, length)
    name = "dividemix"
    length = {"train": {"epochs": epochs_of(name, PASSES_FROM_PIXELS, "cifar10-small", 40), "evaluate_every": 8}}
    yield Cell("sym 50 %", f"{name}, equal passes", "cifar10-small", symmetric(0.5), name, 0, length)


def fit_cell(cell: Cell, features: Path | None, root: str | None) -> dict[str, Any]:
    """A classifier without a network on the rows, labels and test rows that networks of the same table have."""
    began = time.monotonic()
    training = run.load_training_data(configuration(replace(cell, method="ce"), features, root))
    fitted = fit_classic(cell.method, training.data, seed=cell.seed, held_out=training.held_out)
    test = training.data.test
    assert test is not None
    x = np.asarray(test.inputs, dtype=np.float32)  # standardized already
    predicted = fitted.classifier.model.predict_proba(x).argmax(axis=1)
    return {
        "setting": cell.setting,
        "row": cell.row,
        "method": cell.method,
        "preset": cell.preset,
        "seed": cell.seed,
        "changes": cell.changes,
        "last": 100 * float((predicted == test.labels).mean()),
        "seconds": round(time.monotonic() - began, 1),
    }


def epochs_of(name: str, passes: float, preset: str = "features", epochs: int = 20) -> int:
    """So many epochs that a run has about this many network passes per row, counted by a probe."""
    method = run.preset(preset)(NoiseConfig(), name).method
    row, costs = RowCounts(every=1, labeled=1, per_epoch=1, n_classes=10), [NetworkCost(1 / 3, 1.0)] * method.networks
    for _ in range(2):
        counted = sum(passed for _, passed in epoch_costs(method, epochs, row, costs))
        epochs = max(2, round(epochs * passes / counted))
    return epochs


def counted(trainer: Trainer) -> float:
    """Network passes per labeled row so far."""
    rows = int((trainer.labels >= 0).sum())
    return sum(net.backwards + net.forwards / 3 for net in trainer.nets) / rows


@dataclass
class Clock(Callback):
    """Core seconds and passes of each epoch, by stage."""

    trainer: Trainer

    def __post_init__(self) -> None:
        self.lines: list[tuple[str, float, float]] = []
        self.began, self.before = 0.0, 0.0

    def start(self, total_steps: int, done_steps: int, title: str) -> None:
        self.began = time.process_time()

    def epoch(self, line: dict[str, Any]) -> None:
        now, passes = time.process_time(), counted(self.trainer)
        self.lines.append((line["stage"], now - self.began, passes - self.before))
        self.began, self.before = time.process_time(), passes

    def costliest(self) -> tuple[float, float]:
        """Seconds and passes of an epoch of the stage with most passes.

        A stage's first epoch warms caches, and its last ends with a look at all rows: medians over those between. One
        in which the noise rate is estimated has more passes, and is not usual either.
        """
        stages: dict[str, list[tuple[float, float]]] = {}
        for stage, seconds, passes in self.lines:
            stages.setdefault(stage, []).append((seconds, round(passes, 6)))
        inner = [each[1:-1] for each in stages.values() if len(each) > 2]
        usual, best = max(
            ((statistics.median_low(p for _, p in each), each) for each in inner), key=lambda each: each[0]
        )
        return statistics.median(seconds for seconds, passes in best if passes == usual), usual


def cost(names: list[str], path: Path, rounds: int) -> None:
    """Each interleaved with CE, one thread: images of CIFAR's size, the small CNN, no evaluation; medians of rounds."""
    rng = np.random.default_rng(0)
    labels = np.arange(512) % 10
    images = rng.integers(0, 256, (512, 3, 32, 32), dtype=np.uint8)
    data = Dataset("random", Split(images, labels, labels), None, tuple("abcdefghij"), (0.5,) * 3, (0.25,) * 3)
    for name in names:
        turns = []
        for _ in range(rounds):
            found = [epoch_of(which, data) for which in ("ce", name)]
            (plain, one), (own, passes) = found
            turns.append((own / plain, passes / one))
        seconds, counted_passes = (statistics.median(values) for values in zip(*turns, strict=True))
        line = {"method": name, "seconds": round(seconds, 2), "passes": round(counted_passes, 2)}
        line |= {"ratio": round(seconds / counted_passes, 2), "claimed": REGISTRY[name].cost, "rounds": rounds}
        print(json.dumps(line), flush=True)
        with path.open("a") as file:
            file.write(json.dumps(line | {"command": "python benchmarks/every_method.py cost"}) + "\n")


def epoch_of(name: str, data: Dataset) -> tuple[float, float]:
    """Core seconds and passes of an epoch of a method's costliest stage."""
    config = run.preset("images")(NoiseConfig(), name)
    config = replace(config, train=replace(config.train, epochs=EPOCHS, evaluate_every=EPOCHS, dynamics_every=0))
    trainer = run.build_trainer(config, run.load_training_data(config, data), None)
    trainer.callback = clock = Clock(trainer)
    trainer.run()
    return clock.costliest()


def table(path: Path) -> str:
    """Mean of the last epoch's averaged weights over seeds; best first, by the first setting."""
    lines = done(path)
    settings = list(dict.fromkeys(line["setting"] for line in lines))

    def mean(row: str, setting: str) -> float | None:
        last = [line["last"] for line in lines if (line["row"], line["setting"]) == (row, setting)]
        return statistics.fmean(last) if last else None

    rows = sorted({line["row"] for line in lines}, key=lambda row: (-(mean(row, settings[0]) or 0), row))
    out = [f"| method | networks | epochs | {' | '.join(settings)} |", f"|---|---|---|{'---|' * len(settings)}"]
    for row in rows:
        epochs = {line["changes"].get("train", {}).get("epochs", 60) for line in lines if line["row"] == row}
        (method,) = {line["method"] for line in lines if line["row"] == row}
        length = "–" if method in CLASSIC else "/".join(map(str, sorted(epochs)))
        texts = ["–" if (value := mean(row, setting)) is None else f"{value:.1f}" for setting in settings]
        networks = 0 if method in CLASSIC else by_name(method).networks
        out.append(f"| `{row}` | {networks} | {length} | {' | '.join(texts)} |")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["digits", "features", "pixels", "cost"])
    parser.add_argument("--features", type=Path)
    parser.add_argument("--root")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--only", help="method names, separated by commas")
    parser.add_argument("--settings", help="columns of the table, separated by commas")
    parser.add_argument("--rounds", type=int, default=1, help="of cost: how often each is measured")
    parser.add_argument("--show", action="store_true", help="only print what is there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = RESULTS / f"methods-{options.table}.jsonl"
    part, parts = (int(number) for number in options.part.split("/"))
    only = set((options.only or ",".join([*REGISTRY, *CLASSIC])).split(","))
    if options.table == "cost":
        measured = {line["method"] for line in done(path)}
        cost([name for name in REGISTRY if name in only - measured][part::parts], path, options.rounds)
        return
    if not options.show:
        have = {(line["setting"], line["row"], line["seed"]) for line in done(path)}
        cells = {"digits": digits, "features": features, "pixels": pixels}[options.table]()
        columns = set((options.settings or "").split(",")) - {""}
        wanted = [
            cell
            for cell in cells
            if cell.method in only
            and (not columns or cell.setting in columns)
            and (cell.setting, cell.row, cell.seed) not in have
        ]
        for cell in wanted[part::parts]:
            if cell.method in CLASSIC:
                line = fit_cell(cell, options.features, options.root)
            else:
                line = train(cell, configuration(cell, options.features, options.root))
            line["command"] = f"python benchmarks/every_method.py {options.table}"
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{cell.setting}, {cell.row}, seed {cell.seed}: {line['last']:.2f} %", flush=True)
    print(f"\n{table(path)}")


if __name__ == "__main__":
    main()
