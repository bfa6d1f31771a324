"""From the parameters of a fit to the configuration of a run: automatic settings, what the user set, short trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from pars import run
from pars.autoconfig import rules
from pars.data import Dataset, holdout
from pars.engine import Callback, CheckpointRule, prefers_earlier
from pars.errors import UserError
from pars.method_api import Task
from pars.methods import REGISTRY, Supervised, by_name
from pars.run import RunConfig, TrainingData

DEFAULTS: Mapping[str, Any] = {
    "method": "pars",
    "method_params": None,
    "network": "auto",
    "epochs": "auto",
    "batch_size": "auto",
    "lr": "auto",
    "train_params": None,
    "views": "auto",
    "holdout": "auto",
    "select": "auto",
    "device": "auto",
}
"""Parameters of a fit by which a user sets nothing: all of them chosen from the data."""
Progress = Callable[[], Callback | None]
NetworkFactory = Callable[[tuple[int, ...], int], nn.Module]
"""Builds a user's own network for inputs of a shape and a number of classes."""
DEFAULT_SIDE = 224  # pixels, as most pre-trained networks have seen
JUDGING = 0.5  # of the held-out rows, where two trainings are compared by them
SHARE = 0.25  # of the epochs: 0.4, the warm-up of PARS, chose the same in 8 of 9 and takes 1.6 times as long
NUMBERS = {"epochs": "train", "batch_size": "train", "lr": "train", "holdout": "data", "select": "train"}


def configurations(
    params: Mapping[str, Any], dataset: Dataset, seed: int, *, least_held_out: float = 0.0
) -> dict[str, RunConfig]:
    """The configurations that a fit may have, by the names of the candidates that may suit the data (`rules`).

    One, where what the user set or the method leaves nothing to choose.

    least_held_out: share of the labeled rows to hold out where the automatic settings would hold out none. Above 0, a
        half of the held-out rows chooses nothing, so that it can judge.
    A UserError names a parameter that makes no sense.
    """
    shape, labels, n_classes = dataset.train.inputs.shape[1:], dataset.train.labels, dataset.n_classes
    class_rows = np.bincount(labels[labels >= 0], minlength=n_classes).tolist()
    automatic = rules.settings(shape, class_rows, params["method"])
    automatic["data"]["holdout"] = automatic["data"]["holdout"] or least_held_out
    automatic["data"]["judging"] = JUDGING if least_held_out else 0.0
    chosen = {**_chosen_by_user(params), "device": params["device"]}
    candidates = rules.candidates(shape, n_classes)
    if params["network"] is not DEFAULTS["network"] and pixel_side(params["network"]) is not None:
        automatic = automatic | rules.fine_tuning(class_rows) | {"model": {}, "views": {}}
        candidates = candidates[-1:]  # trials of a pre-trained network would cost as much as its training
    found: dict[str, RunConfig] = {}
    for candidate in candidates:
        base = RunConfig(method=by_name(params["method"], candidate.setting), seed=seed)
        config = run.overlay(run.overlay(base, automatic), _changes(candidate, params))
        config = run.overlay(config, chosen)
        if params["select"] in (None, "auto"):
            # The better stage of a method with several, else the best epoch; where nothing is held out, the last.
            select: CheckpointRule = "last"
            if holdout(labels, config.data.holdout, seed).any():
                task = Task(len(labels), n_classes, torch.from_numpy(labels), config.train.epochs)
                stages = [stage for stage in config.method.stages(task) if stage.epochs > 0]
                select = "best-stage" if len(stages) > 1 else "best-epoch"
            config = replace(config, train=replace(config.train, select=select))
        if config not in found.values():
            found[candidate.name if robust_loss(config) == candidate.setting.robust else config.model.name] = config
    return found


def pixel_side(network: Any) -> int | None:
    """The side in pixels at which image files are read for a pre-trained network; none for other networks.

    >>> pixel_side("timm:resnet18"), pixel_side({"name": "lite0", "size": 96}), pixel_side("mlp"), pixel_side("auto")
    (224, 96, None, None)
    """
    name = network.get("name", "auto") if isinstance(network, Mapping) else network
    if not isinstance(name, str) or (name != "lite0" and not name.startswith(("timm:", "hf:"))):
        return None
    size = network.get("size") if isinstance(network, Mapping) else None
    return DEFAULT_SIDE if size is None else size


def _changes(candidate: rules.Candidate, params: Mapping[str, Any]) -> rules.Changes:
    """What a candidate changes in the automatic settings; not the network, where the user chose it or the method needs
    more than a linear one."""
    keeps = str(params["network"]) != DEFAULTS["network"] or "hidden layers" in REGISTRY[params["method"]].needs
    return {} if keeps else candidate.changes


def choose(
    configs: Mapping[str, RunConfig],
    training: TrainingData,
    network: NetworkFactory | None = None,
    *,
    progress: Progress = lambda: None,
) -> tuple[RunConfig, dict[str, float]]:
    """The configuration to train, and the held-out agreement (%) of each candidate after its trial.

    configs: in order of preference. The first is chosen unless another is clearly better, by the rule that compares
    stages (`engine.prefers_earlier`). Where no rows are held out, the last is chosen, whose loss always learns.
    training: the rows, the same for all configurations. network: builds that of each trial, where the user has one.
    """
    *_, last = configs.values()
    judged = training.held_out & ~training.judging & (training.data.train.labels >= 0)
    if len(configs) == 1 or not judged.any():
        return last, {}
    met = {name: trial(loss_alone(config), name, training, network, progress()) for name, config in configs.items()}
    chosen, agreement = preferred(met)
    return configs[chosen], agreement


def preferred(met: Mapping[str, torch.Tensor]) -> tuple[str, dict[str, float]]:
    """The name chosen of trials, in order of preference, and the agreement (%) of each.

    met: whether each held-out label is predicted [m]. The first is chosen that the best is not clearly better than.
    """
    agreement = {name: 100 * float(found.double().mean()) for name, found in met.items()}
    best = met[max(agreement, key=agreement.__getitem__)]
    return next(name for name, found in met.items() if not prefers_earlier(best, found, "best-stage")), agreement


def robust_loss(config: RunConfig) -> str:
    """The method's robust loss; of a method without one cross-entropy."""
    return str(getattr(config.method, "robust", None) or getattr(config.method, "loss", None) or "ce")


def loss_alone(config: RunConfig) -> RunConfig:
    """The configuration for a trial of a loss: a short run with nothing else."""
    epochs = max(1, round(SHARE * config.train.epochs))
    train = replace(config.train, epochs=epochs, evaluate_every=epochs, select="best-epoch", dynamics_every=0)
    return replace(config, method=Supervised(loss=robust_loss(config)), train=train)


def trial(
    config: RunConfig,
    name: str,
    training: TrainingData,
    network: NetworkFactory | None = None,
    callback: Callback | None = None,
) -> torch.Tensor:
    """Train a run that selects a checkpoint: whether its averaged weights predict each held-out label [m]."""
    rows, shape = training.data, training.data.train.inputs.shape[1:]
    networks = None
    if network is not None:
        networks = [network(shape, rows.n_classes) for _ in range(config.method.networks)]
    trained = run.train_or_resume(
        config,
        dataset=training,
        networks=networks,
        callback=callback,
        title=f"trial of {name}",
    )
    trainer = trained.trainer
    assert trainer is not None
    assert trainer.selected is not None
    return trainer.selected.correct


def _chosen_by_user(params: Mapping[str, Any]) -> rules.Changes:
    """What the user set, by the tables of a configuration."""
    out: rules.Changes = {"method": _table(params, "method_params"), "train": _table(params, "train_params")}
    given = {name: value for name, value in params.items() if value is not None and str(value) != "auto"}
    for name, where in NUMBERS.items():
        if name in given:
            out.setdefault(where, {})[name] = run.plain(given[name])
    if "views" in given:
        out["views"] = _table(params, "views")
    network = params["network"]
    if isinstance(network, str) and network != "auto":
        out["model"] = {"name": network}
    elif isinstance(network, Mapping):
        out["model"] = _table(params, "network")
    elif not callable(network) and network != "auto":
        raise UserError(f"network is {network!r}, expected 'auto', a name, a dict of settings or a function")
    return out


def _table(params: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A parameter that holds settings by name."""
    value = params[name]
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UserError(f"{name} is {value!r}, expected a dict of settings")
    return {key: run.plain(inner) for key, inner in value.items()}
