"""Which robust loss suits the data: short trials of each, judged by labels that none was trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import sqrt

from torch import nn

from pars import data, run
from pars.data import Dataset
from pars.engine import Callback, use_threads
from pars.methods import Supervised
from pars.run import RunConfig

Watch = Callable[[], Callback | None]
SHARE = 0.4  # of the epochs: as many as PARS warms up


def choose(
    configs: Mapping[str, RunConfig],
    dataset: Dataset,
    networks: Callable[[], list[nn.Module]] | None = None,
    *,
    watch: Watch = lambda: None,
) -> tuple[RunConfig, dict[str, float]]:
    """The configuration of the first loss, unless another one is clearly better: they are in order of preference.

    With it the share of held-out labels in % that each loss predicts after a trial. Where nothing is held out to judge
    by, the last loss: it is the one that always learns.
    """
    *_, last = configs.values()
    held_out = int(data.holdout(dataset.train.labels, last.data.holdout, last.seed).sum())
    if len(configs) == 1 or not held_out:
        return last, {}
    trials = {}
    for loss, config in configs.items():
        trials[loss] = agreement(trial(config, loss), dataset, networks, watch(), f"trial of {loss}")
    best = max(trials.values())
    enough = best - 100 * standard_error(best / 100, held_out)
    return next(configs[loss] for loss, found in trials.items() if found >= enough), trials


def trial(config: RunConfig, loss: str) -> RunConfig:
    """A short run with nothing but the loss."""
    epochs = max(1, round(SHARE * config.train.epochs))
    train = replace(config.train, epochs=epochs, evaluate_every=epochs, select="last", dynamics_every=0)
    return replace(config, method=Supervised(loss=loss), train=train)


def agreement(
    config: RunConfig,
    dataset: Dataset,
    networks: Callable[[], list[nn.Module]] | None,
    callback: Callback | None,
    title: str,
) -> float:
    """The share of held-out labels in % that a run's averaged weights predict at its end."""
    own = None if networks is None else networks()[:1]
    trainer = run.build(config, run.prepare(config, dataset), None, networks=own, callback=callback, title=title)
    with use_threads(trainer.suitable_threads()):
        trainer.run()
    return float(trainer.history[-1]["holdout"]["ema"])


def standard_error(share: float, rows: float) -> float:
    """Of the difference between two such shares of as many rows.

    >>> round(standard_error(0.7, 1000), 3)
    0.02
    """
    return sqrt(2 * max(share * (1 - share), 1 / rows) / rows)
