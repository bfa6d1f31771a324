"""`method="auto"`: which of a few methods suits the data, by short trials on held-out given labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pars.autoconfig.configure import NetworkFactory, Progress, configurations, preferred, robust_loss, trial
from pars.data import Dataset
from pars.errors import Diverged, UserError
from pars.method_api import AUTO
from pars.methods import by_name
from pars.run import RunConfig, TrainingData

TRIED = ("pars", "sop+", "joint-optim", "warmup")
"""In order of preference: one method of each kind. Selection with pseudo-labels, a noise vector for each row, labels
that are replaced, and the robust loss alone."""
SHARE = 0.3  # of the epochs


def with_first_method(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters whose method is the first that is tried; a UserError for settings of one method, as none is chosen."""
    if params["method_params"]:
        raise UserError(f"method_params is {params['method_params']!r}, of one method; method is {AUTO!r}: name one")
    return {**params, "method": TRIED[0]}


def choose_method(
    first: RunConfig,
    params: Mapping[str, Any],
    dataset: Dataset,
    seed: int,
    training: TrainingData,
    network: NetworkFactory | None = None,
    *,
    least_held_out: float = 0.0,
    progress: Progress = lambda: None,
) -> tuple[RunConfig, dict[str, float]]:
    """The configuration of the method to train, and the held-out agreement (%) of each method after its trial.

    first: the configuration chosen for the method that comes first. The others have its network and its robust loss.
    The first is taken unless another is clearly better (`configure.preferred`), and where no rows are held out.
    """
    if not (training.held_out & ~training.judging & (training.data.train.labels >= 0)).any():
        return first, {}
    configs = {TRIED[0]: first}
    for name in TRIED[1:]:
        found = configurations({**params, "method": name}, dataset, seed, least_held_out=least_held_out)
        configs[name] = _like(first, list(found.values()))
    met = {}
    for name, config in configs.items():
        try:
            met[name] = trial(_short(config), name, training, network, progress())
        except Diverged:
            if name == TRIED[0]:
                raise
    chosen, agreement = preferred(met)
    return configs[chosen], agreement


def name_of(config: RunConfig) -> str:
    """Which of the methods that are tried a configuration has.

    >>> [name_of(RunConfig(method=by_name(name))) for name in TRIED] == list(TRIED)
    True
    """
    kinds = {name: type(by_name(name)) for name in TRIED}
    return next(name for name, kind in kinds.items() if type(config.method) is kind)


def _like(first: RunConfig, found: list[RunConfig]) -> RunConfig:
    """Of a method's configurations the one with the same network and, where it has one, the same robust loss."""
    same = [config for config in found if config.model == first.model] or found
    losses = [config for config in same if robust_loss(config) == robust_loss(first)] or same
    return losses[0]


def _short(config: RunConfig) -> RunConfig:
    """The configuration for a trial: all stages of the method, each shorter."""
    epochs = min(config.train.epochs, max(4, round(SHARE * config.train.epochs)))
    select = "best-stage" if config.train.select == "last" else config.train.select
    every = max(1, epochs // 4)
    train = replace(config.train, epochs=epochs, evaluate_every=every, select=select, dynamics_every=0)
    return replace(config, method=config.method.in_shares(config.train.epochs), train=train)
