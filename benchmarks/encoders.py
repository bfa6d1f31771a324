"""The table of docs/encoders.md: encodes and trains what is missing in results/encoders.jsonl, then prints it.

    python benchmarks/encoders.py texts  --work FOLDER --texts FOLDER     # with hausa_news/ and banking77/ in it
    python benchmarks/encoders.py images --work FOLDER --root DATA        # with cifar-10-batches-py in it

Features are kept in --work. Encodings go on where they were stopped, and a run is one line, appended when it ends.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pars import run
from pars.cli import main as pars
from pars.noise import NoiseConfig

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.tables import RESULTS, Cell, done, show, symmetric, train

NAME = "encoders"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "CE": ("ce", {}),
    "PARS": ("pars", {}),
    "PARS, GCE": ("pars", {"robust": "gce(q=0.7)"}),  # NCE+MAE is slow where classes are many (docs/method.md)
}
SELDOM = {"evaluate_every": 5}
TEXTS = {
    "Hausa news, labels of a heuristic": (
        "hausa",
        ("hausa_news/train_clean_noisy_labels.tsv", "hausa_news/test.tsv", "label", "news_title"),
        NoiseConfig(),
    ),
    "BANKING77, sym 30 %": (
        "banking",
        ("banking77/train.csv", "banking77/test.csv", "category", "text"),
        symmetric(0.3),
    ),
}
IMAGES = "CIFAR-10, lite0, 10 000 rows, sym 50 %"
ONLY_STORED = {"dropout_weak": 0.0, "dropout_strong": 0.0}
IMAGE_VIEWS = {
    "dropout": {"weak": "dropout", "strong": "dropout"},
    "stored views": ONLY_STORED,
    "stored views, dropout": {},
    "dropout weak, stored strong": {"weak": "dropout", "dropout_strong": 0.0},
}


def encoded(work: Path, name: str, *args: object) -> Path:
    out = work / f"{name}.npz"
    if (not out.exists() or out.with_name(f"{out.name}.part").exists()) and pars(
        ["encode", *map(str, [args[0], out, *args[1:]])]
    ):
        sys.exit(f"{out} could not be made")
    return out


def texts(folder: Path, work: Path) -> Iterator[tuple[Cell, Path]]:
    for encoder in ("tfidf", "minilm"):
        for setting, (short, (train_file, test_file, label, text), noise) in TEXTS.items():
            columns = ("--label", label, "--text", text, "--test", folder / test_file)
            made = encoded(work, f"{short}-{encoder}", folder / train_file, *columns, "--encoder", encoder)
            for row, (method, changes) in METHODS.items():
                changed = {"train": SELDOM, "method": changes}
                yield Cell(setting, f"{encoder}, {row}", "features", noise, method, 0, changed), made
                if (short, encoder) == ("banking", "minilm") and row != "PARS":
                    longer = {"train": {"epochs": 60, "evaluate_every": 15}, "method": changes}
                    name = f"{encoder}, {row}, 60 epochs"
                    yield Cell(setting, name, "features", noise, method, 0, longer), made


def images(root: str, work: Path) -> Iterator[tuple[Cell, Path]]:
    rows = ("--encoder", "lite0", "--limit", 10_000, "--views", 2, "--root", root)
    made = encoded(work, "cifar10-lite0-views", "cifar10", *rows)
    for method_row in ("PARS", "CE"):
        for row, views in IMAGE_VIEWS.items():
            changes = {"train": SELDOM, "views": views}
            method = METHODS[method_row][0]
            yield Cell(IMAGES, f"{method_row}, {row}", "features", symmetric(0.5), method, 0, changes), made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=("texts", "images"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--texts", type=Path, default=Path())
    parser.add_argument("--root", default="")
    options = parser.parse_args()
    torch.set_num_threads(1)  # bits depend on the number of threads
    options.work.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{NAME}.jsonl"
    cells = texts(options.texts, options.work) if options.table == "texts" else images(options.root, options.work)
    for cell, file in cells:
        if (cell.setting, cell.row) in {(line["setting"], line["row"]) for line in done(path)}:
            continue
        config = run.overlay(run.preset("features")(cell.noise, cell.method), cell.changes)
        config = replace(config, data=replace(config.data, name=str(file)), seed=cell.seed, device="cpu")
        line = train(cell, config) | {"command": f"python benchmarks/encoders.py {options.table}"}
        with path.open("a") as out:
            out.write(json.dumps(line) + "\n")
        print(f"{cell.setting}, {cell.row}: {line['last']:.2f} %", flush=True)
    show(NAME)


if __name__ == "__main__":
    main()
