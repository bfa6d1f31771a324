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
from pars.method_api import Task
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


def configurations(
    params: Mapping[str, Any], dataset: Dataset, seed: int, *, least_held_out: float = 0.0
) -> dict[str, run.RunConfig]:
    """The configurations that a fit may have, by the robust losses that may suit the data; one where none is used.

    least_held_out: share of the labeled rows to hold out where the automatic settings would hold out none.
    A UserError names a parameter that makes no sense.
    """
    shape, labels, n_classes = dataset.train.inputs.shape[1:], dataset.train.labels, dataset.n_classes
    class_rows = np.bincount(labels[labels >= 0], minlength=n_classes).tolist()
    automatic = rules.settings(shape, class_rows, params["method"])
    automatic["data"]["holdout"] = automatic["data"]["holdout"] or least_held_out
    chosen = {**_chosen_by_user(params), "device": params["device"]}
    found: dict[str, run.RunConfig] = {}
    for setting in rules.robust_settings(shape, n_classes):
        base = run.RunConfig(method=by_name(params["method"], setting), seed=seed)
        config = run.overlay(run.overlay(base, automatic), chosen)
        if params["select"] in (None, "auto"):
            # The better stage of a method with several, else the best epoch; where nothing is held out, the last.
            select: CheckpointRule = "last"
            if holdout(labels, config.data.holdout, seed).any():
                task = Task(len(labels), n_classes, torch.from_numpy(labels), config.train.epochs)
                stages = [stage for stage in config.method.stages(task) if stage.epochs > 0]
                select = "best-stage" if len(stages) > 1 else "best-epoch"
            config = replace(config, train=replace(config.train, select=select))
        if config not in found.values():
            found[str(setting.robust)] = config
    return found


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
