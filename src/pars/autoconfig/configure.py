"""From the parameters of a fit to the configuration of a run: automatic settings, then what the user set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from pars import run
from pars.autoconfig import rules
from pars.data import Dataset, holdout
from pars.engine import CheckpointRule
from pars.errors import UserError
from pars.method_api import Setting, Task
from pars.methods import by_name

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
NUMBERS = {"epochs": "train", "batch_size": "train", "lr": "train", "holdout": "data", "select": "train"}


def configurations(params: Mapping[str, Any], dataset: Dataset, seed: int) -> dict[str, run.RunConfig]:
    """The configurations that a fit may have, by the robust losses that may suit the data; one where none is used.

    A UserError names a parameter that makes no sense.
    """
    facts = facts_of(dataset)
    found: dict[str, run.RunConfig] = {}
    for loss in rules.robust_losses_for(facts):
        config = configuration(params, dataset, seed, Setting(robust=loss, tau=rules.confidence_for(facts)))
        if config not in found.values():
            found[loss] = config
    return found


def held_out_share(dataset: Dataset) -> float:
    """The share of labeled rows that is held out unless the user says otherwise; 0 for few rows."""
    return rules.holdout_for(facts_of(dataset))


def configuration(params: Mapping[str, Any], dataset: Dataset, seed: int, setting: Setting) -> run.RunConfig:
    facts = facts_of(dataset)
    method = by_name(params["method"], setting)
    changes = rules.settings(facts) | {"method": rules.method_for(params["method"], facts)}
    base = run.overlay(run.RunConfig(method=method, seed=seed), changes)
    config = run.overlay(base, {**chosen(params), "device": params["device"]})
    return (
        replace(config, train=replace(config.train, select=select_for(config, dataset)))
        if is_auto(params["select"])
        else config
    )


def select_for(config: run.RunConfig, dataset: Dataset) -> CheckpointRule:
    """The better stage of a method with several, else the best epoch; where nothing is held out, the last."""
    if not holdout(dataset.train.labels, config.data.holdout, config.seed).any():
        return "last"
    labels = torch.from_numpy(dataset.train.labels)
    stages = config.method.stages(Task(len(labels), dataset.n_classes, labels, config.train.epochs))
    return "best-stage" if sum(stage.epochs > 0 for stage in stages) > 1 else "best-epoch"


def facts_of(dataset: Dataset) -> rules.Facts:
    labels = dataset.train.labels
    counts = np.bincount(labels[labels >= 0], minlength=dataset.n_classes)
    return rules.Facts(shape=tuple(dataset.train.inputs.shape[1:]), class_rows=tuple(counts.tolist()))


def chosen(params: Mapping[str, Any]) -> rules.Changes:
    """What the user set, by the tables of a configuration."""
    out: rules.Changes = {"method": table(params, "method_params"), "train": table(params, "train_params")}
    for name, where in NUMBERS.items():
        if not is_auto(params[name]):
            out.setdefault(where, {})[name] = run.plain(params[name])
    if not is_auto(params["views"]):
        out["views"] = table(params, "views")
    network = params["network"]
    if isinstance(network, str) and network != "auto":
        out["model"] = {"name": network}
    elif isinstance(network, Mapping):
        out["model"] = table(params, "network")
    elif not callable(network) and network != "auto":
        raise UserError(f"network is {network!r}, expected 'auto', a name, a dict of settings or a function")
    return out


def table(params: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A parameter that holds settings by name."""
    value = params[name]
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UserError(f"{name} is {value!r}, expected a dict of settings")
    return {key: run.plain(inner) for key, inner in value.items()}


def is_auto(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value == "auto")
