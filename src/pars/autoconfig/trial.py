"""Which robust loss suits the data: a short trial of each, judged by held-out labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import sqrt

from torch import nn

from pars import run
from pars.engine import Callback
from pars.methods import Supervised
from pars.run import RunConfig, TrainingData

Progress = Callable[[], Callback | None]
NetworkFactory = Callable[[tuple[int, ...], int], nn.Module]
"""Builds a user's own network for inputs of a shape and a number of classes."""
SHARE = 0.4  # of the epochs: as many as PARS warms up


def choose(
    configs: Mapping[str, RunConfig],
    training: TrainingData,
    network: NetworkFactory | None = None,
    *,
    progress: Progress = lambda: None,
) -> tuple[RunConfig, dict[str, float]]:
    """The configuration to train, and the held-out agreement (%) of each robust loss after its trial.

    configs: in order of preference. The first is chosen unless another is clearly better. Where no rows are held out,
    the last is chosen, whose loss always learns. training: the rows, the same for all configurations.
    network: builds that of each trial, where the user has one.
    """
    *_, last = configs.values()
    held_out = int(training.held_out.sum())
    if len(configs) == 1 or not held_out:
        return last, {}
    trials = {loss: trial(config, loss, training, network, progress()) for loss, config in configs.items()}
    best = max(trials.values())
    enough = best - 100 * standard_error(best / 100, held_out)
    return next(configs[loss] for loss, found in trials.items() if found >= enough), trials


def trial(
    config: RunConfig,
    loss: str,
    training: TrainingData,
    network: NetworkFactory | None = None,
    callback: Callback | None = None,
) -> float:
    """Train a short run with nothing but the loss: agreement (%) of its averaged weights with held-out labels."""
    epochs = max(1, round(SHARE * config.train.epochs))
    train = replace(config.train, epochs=epochs, evaluate_every=epochs, select="last", dynamics_every=0)
    rows = training.data
    trained = run.train_or_resume(
        replace(config, method=Supervised(loss=loss), train=train),
        dataset=training,
        networks=None if network is None else [network(rows.train.inputs.shape[1:], rows.n_classes)],
        callback=callback,
        title=f"trial of {loss}",
    )
    return float(trained.result["holdout"]["ema"]["last"])


def standard_error(share: float, rows: float) -> float:
    """Of the difference between two such shares of as many rows.

    >>> round(standard_error(0.7, 1000), 3)
    0.02
    """
    return sqrt(2 * max(share * (1 - share), 1 / rows) / rows)
