"""Train one method on a data set with settings chosen from the data: the step that fits and estimators share.

A name of `pars.classic` is fitted without a network and without those settings.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt
import torch

from pars import audit, autoconfig, data, run
from pars.audit import AuditReport
from pars.autoconfig import NetworkFactory, Progress
from pars.classic import CLASSIC, ClassicFit, check_known, fit_classic
from pars.data import Dataset, Table
from pars.engine import network_cost
from pars.errors import SimplerModelWarning, UserError
from pars.fitting.simpler import LINEAR, better_linear
from pars.method_api import AUTO
from pars.models import build_model
from pars.run import RunConfig, Trained, TrainingData, toml


def no_progress() -> None:
    return None


@dataclass(frozen=True, eq=False)
class Training:
    """A trained method on the data set it was trained on."""

    dataset: Dataset
    trained: Trained
    trials: dict[str, float]  # held-out agreement (%) of each robust loss, network and method that was tried
    loaded: TrainingData  # the data set as it was trained on: standardized, rows held out

    def dynamics(self) -> dict[str, npt.NDArray[Any]] | None:
        """Per-example training dynamics, as `audit.from_dynamics` reads them; None where none were recorded."""
        trainer = self.trained.trainer
        if trainer is None or trainer.dynamics is None:
            return None
        return {name: tensor.numpy() for name, tensor in trainer.recorded().items()}

    def audit(self) -> AuditReport:
        """The audit of the training labels; nearest neighbors vote where rows are feature vectors."""
        features = self.dataset.train.features
        dynamics = self.dynamics()
        if dynamics is not None:
            return audit.from_dynamics(dynamics, classes=self.dataset.classes, features=features)
        assert self.trained.folder is not None
        return audit.audit_run(self.trained.folder.path, features=features)


@dataclass(frozen=True, eq=False)
class ClassicTraining:
    """A classifier without a network, on the data set it was fitted to."""

    dataset: Dataset
    fit: ClassicFit

    def dynamics(self) -> dict[str, npt.NDArray[Any]]:
        """Out-of-fold probabilities, under the names that `audit.from_dynamics` reads."""
        return self.fit.evidence()

    def audit(self) -> AuditReport:
        """The audit of the labels, by out-of-fold probabilities and votes of nearest neighbors."""
        features = self.dataset.train.inputs
        return audit.from_dynamics(self.dynamics(), classes=self.dataset.classes, features=features)


def train_dataset(
    dataset: Dataset,
    params: Mapping[str, Any],
    seed: int,
    *,
    network: NetworkFactory | None = None,
    progress: Progress = no_progress,
) -> Training | ClassicTraining:
    """Choose settings for a data set (`autoconfig`) and train in memory. `params`: see `autoconfig.DEFAULTS`.

    With the method "auto" the method is chosen, too.
    """
    check_method(params["method"])
    if params["method"] in CLASSIC:
        return _fit_without_network(dataset, params, seed)
    config, trials, loaded = choose_config(dataset, params, seed, network=network, progress=progress)
    networks = None
    if network is not None:
        shape = dataset.train.inputs.shape[1:]
        networks = [network(shape, dataset.n_classes) for _ in range(config.method.networks)]
    trained = run.train_or_resume(
        config, dataset=loaded, networks=networks, callback=progress(), title=method_of(params["method"], config)
    )
    training = Training(dataset, trained, trials, loaded)
    name = params["method"]
    if is_automatic(params) and (found := better_linear(trained, name, dataset, loaded)) is not None:
        warnings.warn(found, SimplerModelWarning, stacklevel=4)
        return ClassicTraining(dataset, fit_classic(LINEAR, dataset, seed=seed, held_out=loaded.held_out))
    return training


def is_automatic(params: Mapping[str, Any]) -> bool:
    """Whether the user left it to us which network is trained and which of its checkpoints is returned."""
    return all(isinstance(params[name], str) and params[name] == "auto" for name in ("network", "select"))


def check_method(method: object) -> None:
    if not isinstance(method, str):
        raise UserError(f"method is {method!r}, expected a name of `pars methods` or {AUTO!r}")
    if method != AUTO:
        check_known(method)


def method_of(asked: str, config: RunConfig) -> str:
    """The name of the method that is trained: the one that was asked for, or the one that was chosen."""
    return autoconfig.name_of(config) if asked == AUTO else asked


def check_request(method: object, network: object, device: Any, table: Table) -> None:
    """Refuse, before anything is written, what no training of these rows could use."""
    check_method(method)
    toml.conforming(RunConfig(device=device))
    if network != "auto" and method in CLASSIC:
        raise UserError(f"network is {network!r}, but {method} has no network: expected 'auto'")
    if network != "auto" and (table.kind == "columns" or (table.kind == "text" and not reads_texts(network))):
        expected = "a text network is hf:NAME" if table.kind == "text" else "expected 'auto'"
        name = network.get("name") if isinstance(network, Mapping) else network
        raise UserError(f"network is {name!r}, which trains on images, but {table.source} has none; {expected}")


def reads_texts(network: Any) -> bool:
    """Whether a network may be one of texts.

    >>> reads_texts("hf:somebody/minilm"), reads_texts({"name": "timm:resnet18"})
    (True, False)
    """
    return str(network.get("name") if isinstance(network, Mapping) else network).startswith("hf:")


def _fit_without_network(dataset: Dataset, params: Mapping[str, Any], seed: int) -> ClassicTraining:
    """Fit a classifier of `pars.classic`. Of `params` it takes method, method_params and holdout; none is held out
    unless asked for."""
    name = params["method"]
    for key in ("network", "epochs", "batch_size", "lr", "train_params", "views", "select"):
        value = params[key]
        if not (value is None or (isinstance(value, str) and value == "auto")):
            raise UserError(f"{key} is {value!r}, but {name} has no network: expected 'auto' or None")
    own = params["method_params"]
    if own is not None and not isinstance(own, Mapping):
        raise UserError(f"method_params is {own!r}, expected a dict of settings")
    share = params["holdout"]
    share = 0.0 if share is None or isinstance(share, str) else share
    held_out = data.holdout(dataset.train.labels, share, seed)
    return ClassicTraining(dataset, fit_classic(name, dataset, params=own, seed=seed, held_out=held_out))


def choose_config(
    dataset: Dataset,
    params: Mapping[str, Any],
    seed: int,
    *,
    least_held_out: float = 0.0,
    network: NetworkFactory | None = None,
    progress: Progress = no_progress,
) -> tuple[RunConfig, dict[str, float], TrainingData]:
    """The configuration for a data set, the held-out agreement (%) of each trial, and the rows.

    least_held_out: share of the labeled rows to hold out where the automatic settings would hold out none.
    """
    is_open = params["method"] == AUTO
    first = autoconfig.with_first_method(params) if is_open else params
    configs = autoconfig.configurations(first, dataset, seed, least_held_out=least_held_out)
    loaded = run.load_training_data(next(iter(configs.values())), dataset)  # once: the same for all
    config, trials = autoconfig.choose(configs, loaded, network, progress=progress)
    if is_open:
        config, methods = autoconfig.choose_method(
            config, params, dataset, seed, loaded, network, least_held_out=least_held_out, progress=progress
        )
        trials |= methods
    return replace(config, data=replace(config.data, name=dataset.name)), trials, loaded


def epochs_for_flop(config: RunConfig, rows: TrainingData, flop: float) -> int:
    """Number of epochs that costs `flop` floating-point operations, for a method with one pass a row and epoch."""
    train = rows.data.train
    shape = train.inputs.shape[1:]
    example = torch.zeros(2, *shape)  # two rows: BatchNorm needs more than one
    cost = network_cost(build_model(config.model, shape, rows.data.n_classes, seed=config.seed), example)
    trained_on = int(((train.labels >= 0) & ~rows.held_out).sum())
    return max(1, round(flop / (cost.training * trained_on)))
