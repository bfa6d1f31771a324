"""A run folder written by hand in the documented formats, so that the tests of the report need no training."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

CLASSES = ("zebra", "ant, red", "moth")  # not in the order of the alphabet, and one with a comma
N = 1000
UNLABELED = 200  # the last rows
WARM_UP, EPOCHS = 12, 30
TAU = 0.95

CONFIG = """\
seed = 3
device = "cpu"
[data]
name = "my[red]data.npz"
holdout = 0.1
download = true
[noise]
kind = "symmetric"
rate = 0.5
convention = "inclusive"
[model]
name = "small_cnn"
hidden = [256]
batch_norm = false
[views]
weak = "crop"
[method]
kind = "PARS"
tau = 0.95
lambda_S = 1.0
robust = "10*nce+mae"
pseudo = true
[train]
epochs = 30
"""


def labels(seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Given and true class numbers; half of the given ones are drawn again."""
    rng = np.random.default_rng(seed)
    true = rng.integers(3, size=N)
    given = np.where(rng.random(N) < 0.5, rng.integers(3, size=N), true)
    given[-UNLABELED:] = -1
    return given, true


def rows(sharpness: float, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """A network that mostly predicts the true class, the surer the larger `sharpness`."""
    given, true = labels()
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(N, 3))
    logits[np.arange(N), true] += sharpness * rng.random(N)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    p = p.astype(np.float32)
    return {
        "confidence": p.max(axis=1),
        "predicted": p.argmax(axis=1),
        "given_label_confidence": p[np.arange(N), given.clip(0)],
    }


def epoch(number: int) -> dict[str, Any]:
    """A line of metrics.jsonl; tested in every second epoch and at stage ends."""
    warm = number <= WARM_UP
    t = number / EPOCHS
    raw = {
        "rows": 800.0,
        "selected": 0.0 if number == 1 else float(round(800 * t)),
        "unselected": 800.0 if number == 1 else 800.0 - round(800 * t),
        "pseudo_accuracy": 0.5 + 0.4 * t,
        "pseudo_accuracy_selected": 0.0 if number == 1 else 0.98 - 0.05 * t,
        "pseudo_accuracy_unselected": 0.45 + 0.1 * t,
        "labels_right_selected": 0.0 if number == 1 else 0.7 - 0.05 * t,
        "labels_right_unselected": 0.6 - 0.3 * t,
        "memorized": 0.3 - 0.2 * t,
    }
    pseudo = raw | {"rows": 2400.0, "selected": 1200.0 + 30 * number, "unselected": 1200.0 - 30 * number}
    line: dict[str, Any] = {
        "epoch": number,
        "stage": "warm-up" if warm else "main",
        "steps": 7 * number,
        "images": 800 * number,
        "flop": 2.5e12 * number,
        "losses": {"raw": 1 / number},
        "selection": {"raw": raw} if warm else {"raw": raw, "pseudo": pseudo},
    }
    if number % 2 == 0 or number in (WARM_UP, EPOCHS):
        accuracy = 60 + 35 * t - (3 if number == EPOCHS else 0)
        line["test"] = {"raw": accuracy - 4 + 2 * (number % 3), "ema": accuracy}
        line["holdout"] = {"raw": 30 + 10 * t, "ema": 32 + 12 * t}
    return line


def write_rows(path: Path, number: int, values: dict[str, np.ndarray[Any, Any]]) -> None:
    stage = path.stem.removeprefix("rows-")
    note = json.dumps({"stage": stage, "epoch": number})
    save_file({key: np.ascontiguousarray(value) for key, value in values.items()}, path, metadata={"pars": note})


def write_labels(path: Path, *, truth: bool = True) -> None:
    given, true = labels()
    names = (*CLASSES, "")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", "given", "true"][: 3 if truth else 2])
        for row, (g, t) in enumerate(zip(given, true, strict=True)):
            writer.writerow([row, names[g], names[t]][: 3 if truth else 2])


def noise() -> dict[str, Any]:
    given, true = labels()
    labeled = given >= 0
    return {
        "kind": "symmetric",
        "convention": "inclusive",
        "rate": 0.5,
        "seed": 3,
        "realized_rate": float((given != true)[labeled].mean()),
        "n_labeled": int(labeled.sum()),
        "confusion": [[0, 0, 0]] * 3,
        "sha256": "",
    }


def write_run(path: Path, *, truth: bool = True, epochs: int = EPOCHS) -> Path:
    """A run that was stopped after so many epochs."""
    path.mkdir()
    (path / "config.toml").write_text(CONFIG, encoding="utf-8")
    (path / "inputs.json").write_text(json.dumps({"format": 2}), encoding="utf-8")
    (path / "noise.json").write_text(json.dumps(noise()), encoding="utf-8")
    write_labels(path / "labels.csv", truth=truth)
    lines = [epoch(number) for number in range(1, epochs + 1)]
    if not truth:
        for line in lines:
            for selection in line["selection"].values():
                for key in set(selection) - {"rows", "selected", "unselected"}:
                    del selection[key]
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    if epochs >= WARM_UP:
        write_rows(path / "rows-warm-up.safetensors", WARM_UP, rows(5, seed=1))
    if epochs >= EPOCHS:
        write_rows(path / "rows-main.safetensors", EPOCHS, rows(20, seed=2))
        (path / "result.json").write_text(json.dumps({"epochs": EPOCHS}), encoding="utf-8")
    return path
