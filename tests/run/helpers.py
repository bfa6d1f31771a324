"""Small data sets, and configurations that train on them in a moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pars.data import DataConfig, Dataset, Split, channel_statistics
from pars.engine import Callback, TrainConfig
from pars.models import ModelConfig
from pars.noise import NoiseConfig
from pars.run import RunConfig

SYMMETRIC = NoiseConfig(kind="symmetric", rate=0.5)


def images(n: int, n_classes: int = 10, *, n_test: int = 8, seed: int = 0) -> Dataset:
    """Random 3×32×32 images, every class equally often."""
    rng = np.random.default_rng(seed)

    def split(rows: int) -> Split:
        labels = np.arange(rows) % n_classes
        return Split(rng.integers(0, 256, (rows, 3, 32, 32), dtype=np.uint8), labels, labels.copy())

    train = split(n)
    mean, std = channel_statistics(train.inputs)  # type: ignore[arg-type]
    return Dataset("fake", train, split(n_test), tuple(f"class {c}" for c in range(n_classes)), mean, std)


def features(n: int = 60, *, seed: int = 0, truth: bool = True, wrong: float = 0.0) -> Dataset:
    """Three clouds in columns of very different units; a share of the given labels is drawn again."""
    rng = np.random.default_rng(seed)
    centers = 3 * rng.standard_normal((3, 4))
    scale, shift = np.array([1e-3, 1.0, 1e3, 1.0]), np.array([0.0, 50.0, -2e3, 0.0])

    def split(rows: int) -> Split:
        labels = rng.permutation(np.arange(rows) % 3)
        inputs = (centers[labels] + rng.standard_normal((rows, 4))) * scale + shift
        return Split(inputs.astype(np.float32), labels, labels.copy())

    train, test = split(n), split(30)
    given = np.where(rng.random(n) < wrong, rng.integers(3, size=n), train.labels)
    return Dataset("clouds", Split(train.inputs, given, train.labels if truth else None), test, ("a", "b", "c"))


def tiny(**changes: Any) -> RunConfig:
    """Two epochs of a linear network on 200 digits with half of the labels drawn again."""
    config = RunConfig(
        data=DataConfig(name="digits", limit=200),
        noise=SYMMETRIC,
        model=ModelConfig(name="linear"),
        train=TrainConfig(epochs=2, batch_size=64, lr=0.05, ema=0.9),
    )
    return replace(config, **changes)


def write_npz(path: Path, dataset: Dataset) -> Path:
    """A data set as a user's file."""
    assert dataset.test is not None
    np.savez(
        path,
        x=dataset.train.inputs,
        y=dataset.train.labels,
        x_test=dataset.test.inputs,
        y_test=dataset.test.labels,
        classes=np.array(dataset.classes),
    )
    return path


class StopAfter(Callback):
    """As if killed right after an epoch was saved."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def epoch(self, line: dict[str, Any]) -> None:
        if line["epoch"] == self._epoch:
            raise Killed


class Killed(BaseException):
    """Not an Exception: no handler of ours may swallow it."""


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: names, and bytes of files."""
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}
