"""A toy problem, trainers on it, and what it means that two runs are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pars import augment
from pars.data import Dataset, Split
from pars.engine import Callback, Processes, RunFolder, TrainConfig, Trainer
from pars.method_api import Method
from pars.models import ModelConfig, build_model

N_FEATURES, N_CLASSES = 4, 3
SHORT = TrainConfig(epochs=4, batch_size=16, lr=0.1, ema=0.9)


def toy(n: int = 60, *, unlabeled: int = 0, noise: float = 0.3, spread: float = 1.0, seed: int = 0) -> Dataset:
    """Three Gaussian clouds; some labels are wrong, and the last rows have none."""
    rng = np.random.default_rng(seed)
    centers = 2 * rng.standard_normal((N_CLASSES, N_FEATURES))

    def split(size: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        labels = rng.permutation(np.arange(size) % N_CLASSES)
        return (centers[labels] + spread * rng.standard_normal((size, N_FEATURES))).astype(np.float32), labels

    inputs, true = split(n)
    given = np.where(rng.random(n) < noise, rng.integers(N_CLASSES, size=n), true)
    given[n - unlabeled :] = -1
    test_inputs, test_labels = split(30)
    return Dataset("toy", Split(inputs, given, true), Split(test_inputs, test_labels), ("a", "b", "c"))


def network(*, seed: int = 0, dropout: float = 0.0, batch_norm: bool = True) -> nn.Module:
    config = ModelConfig(name="mlp", hidden=(8,), batch_norm=batch_norm, dropout=dropout)
    return build_model(config, (N_FEATURES,), N_CLASSES, seed=seed)


def views(kind: str = "dropout") -> augment.Views:
    config = augment.ViewsConfig() if kind == "dropout" else augment.ViewsConfig(weak="none", strong="none")
    return augment.build_views(config, image=False, shape=(N_FEATURES,), mean=(), std=())


def make_trainer(
    method: Method,
    *,
    data: Dataset | None = None,
    config: TrainConfig = SHORT,
    folder: Path | None = None,
    callback: Callback | None = None,
    held_out: npt.NDArray[np.bool_] | None = None,
    seed: int = 0,
    dropout: float = 0.0,
    plain_views: bool = False,
    planned: Sequence[float] = (),
    processes: Processes | None = None,
    device: str = "cpu",
) -> Trainer:
    if folder is not None:
        folder.mkdir(exist_ok=True)
    return Trainer(
        method=method,
        data=toy() if data is None else data,
        networks=[network(seed=index, dropout=dropout) for index in range(method.networks)],
        views=views("none" if plain_views else "dropout"),
        config=config,
        seed=seed,
        device=device,
        held_out=held_out,
        folder=None if folder is None else RunFolder(folder),
        callback=callback,
        planned=planned,
        processes=processes,
    )


class Recorder(Callback):
    """Keeps the line of each epoch."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def epoch(self, line: dict[str, Any]) -> None:
        self.lines.append(line)


def assert_identical(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> None:
    """Bit for bit, names and types and all."""
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype, name
        assert torch.equal(a[name], b[name]), name


def weights(trainer: Trainer) -> dict[str, Tensor]:
    """Networks, averages and optimizers, without what the method keeps of its own."""
    kept = ("raw.", "average.", "attached.", "optimizer.")
    return {name: tensor for name, tensor in trainer.tensors().items() if name.startswith(kept)}
