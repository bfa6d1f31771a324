"""Which robust loss suits the data: a short trial of each, judged by held-out labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import sqrt

from torch import nn

from pars import data, run
from pars.data import Dataset
from pars.engine import Callback
from pars.methods import Supervised
from pars.run import RunConfig

Progress = Callable[[], Callback | None]
SHARE = 0.4  # of the epochs: as many as PARS warms up


def choose(
    configs: Mapping[str, RunConfig],
    dataset: Dataset,
    networks: Callable[[], list[nn.Module]] | None = None,
    *,
    progress: Progress = lambda: None,
) -> tuple[RunConfig, dict[str, float]]:
    """The configuration to train, and the held-out agreement (%) of each robust loss after its trial.

    configs: in order of preference. The first is chosen unless another is clearly better. Where no rows are held out,
    the last is chosen, whose loss always learns. networks: builds one network for each trial, where the user has one.
    """
    *_, last = configs.values()
    held_out = int(data.holdout(dataset.train.labels, last.data.holdout, last.seed).sum())
    if len(configs) == 1 or not held_out:
        return last, {}
    trials = {}
    for loss, config in configs.items():
        trials[loss] = held_out_agreement(trial(config, loss), dataset, networks, progress(), f"trial of {loss}")
    best = max(trials.values())
    enough = best - 100 * standard_error(best / 100, held_out)
    return next(configs[loss] for loss, found in trials.items() if found >= enough), trials


def trial(config: RunConfig, loss: str) -> RunConfig:
    """A short run with nothing but the loss."""
    epochs = max(1, round(SHARE * config.train.epochs))
    train = replace(config.train, epochs=epochs, evaluate_every=epochs, select="last", dynamics_every=0)
    return replace(config, method=Supervised(loss=loss), train=train)


def held_out_agreement(
    config: RunConfig,
    dataset: Dataset,
    networks: Callable[[], list[nn.Module]] | None,
    callback: Callback | None,
    title: str,
) -> float:
    """Agreement (%) of a run's averaged weights with held-out labels at its end."""
    own = None if networks is None else networks()
    trained = run.train_or_resume(config, dataset=dataset, networks=own, callback=callback, title=title)
    return float(trained.result["holdout"]["ema"]["last"])


def standard_error(share: float, rows: float) -> float:
    """Of the difference between two such shares of as many rows.

    >>> round(standard_error(0.7, 1000), 3)
    0.02
    """
    return sqrt(2 * max(share * (1 - share), 1 / rows) / rows)
