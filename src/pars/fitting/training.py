"""Train one method on a data set with settings chosen from the data: the step that fits and estimators share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pars import audit, autoconfig, data, run
from pars.audit import AuditReport
from pars.data import Dataset
from pars.engine import Callback, NetworkCost, network_cost
from pars.models import build_model
from pars.run import RunConfig, Trained

Progress = Callable[[], Callback | None]
NetworkFactory = Callable[[tuple[int, ...], int], nn.Module]


def no_progress() -> None:
    return None


@dataclass(frozen=True, eq=False)
class Training:
    """A trained method on the data set it was trained on."""

    dataset: Dataset
    trained: Trained
    trials: dict[str, float]  # held-out agreement (%) of each robust loss that was tried

    @property
    def config(self) -> RunConfig:
        return self.trained.config

    @property
    def held_out(self) -> npt.NDArray[np.bool_]:
        """Rows [n] that were not trained on."""
        return data.holdout(self.dataset.train.labels, self.config.data.holdout, self.config.seed)

    def dynamics(self) -> dict[str, npt.NDArray[Any]] | None:
        """Per-example training dynamics, as `audit.from_dynamics` reads them; None where none were recorded."""
        trainer = self.trained.trainer
        if trainer is None or trainer.dynamics is None:
            return None
        return {name: tensor.numpy() for name, tensor in trainer.recorded().items()}

    def audit(self) -> AuditReport:
        """The audit of the training labels; nearest neighbors vote where rows are feature vectors."""
        features = self.dataset.train.inputs if self.dataset.train.inputs.ndim == 2 else None
        dynamics = self.dynamics()
        if dynamics is not None:
            return audit.from_dynamics(dynamics, classes=self.dataset.classes, features=features)
        assert self.trained.folder is not None
        return audit.audit_run(self.trained.folder.path, features=features)


def train_dataset(
    dataset: Dataset,
    params: Mapping[str, Any],
    seed: int,
    *,
    network: NetworkFactory | None = None,
    progress: Progress = no_progress,
) -> Training:
    """Choose settings for a data set (`autoconfig`) and train in memory. `params`: see `autoconfig.DEFAULTS`."""
    config, trials = choose_config(dataset, params, seed, network=network, progress=progress)
    return Training(dataset, train_config(config, dataset, None, network, progress, params["method"]), trials)


def choose_config(
    dataset: Dataset,
    params: Mapping[str, Any],
    seed: int,
    *,
    network: NetworkFactory | None = None,
    progress: Progress = no_progress,
) -> tuple[RunConfig, dict[str, float]]:
    """The configuration for a data set, and the held-out agreement (%) of each robust loss that was tried."""
    configs = autoconfig.configurations(params, dataset, seed)
    config, trials = autoconfig.choose(configs, dataset, _networks(network, dataset, 1), progress=progress)
    return replace(config, data=replace(config.data, name=dataset.name)), trials


def train_config(
    config: RunConfig,
    dataset: Dataset,
    folder: Path | None,
    network: NetworkFactory | None = None,
    progress: Progress = no_progress,
    title: str = "train",
) -> Trained:
    """Train a configuration, in memory or in a folder, where an interrupted run is resumed."""
    networks = _networks(network, dataset, config.method.networks)
    return run.train_or_resume(
        config,
        folder,
        dataset=dataset,
        networks=None if networks is None else networks(),
        dataset_is_named=folder is not None,
        callback=progress(),
        title=title,
    )


def epochs_for_flop(config: RunConfig, dataset: Dataset, flop: float) -> int:
    """Number of epochs that costs `flop` floating-point operations, for a method with one pass a row and epoch."""
    held_out = data.holdout(dataset.train.labels, config.data.holdout, config.seed)
    rows = int(((dataset.train.labels >= 0) & ~held_out).sum())
    return max(1, round(flop / (row_cost(config, dataset).training * rows)))


def row_cost(config: RunConfig, dataset: Dataset) -> NetworkCost:
    """FLOP per row of the configuration's network on the rows of a data set."""
    shape = tuple(dataset.train.inputs.shape[1:])
    example = torch.zeros(2, *shape)  # two rows: BatchNorm needs more than one
    return network_cost(build_model(config.model, shape, dataset.n_classes, seed=config.seed), example)


def _networks(network: NetworkFactory | None, dataset: Dataset, count: int) -> Callable[[], list[nn.Module]] | None:
    if network is None:
        return None
    shape = tuple(dataset.train.inputs.shape[1:])
    return lambda: [network(shape, dataset.n_classes) for _ in range(count)]
