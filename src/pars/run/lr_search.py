"""The same search for a learning rate for every method: on a part of the budget, judged by held-out given labels."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pars.engine import Callback, RunFolder, write_text
from pars.errors import UserError
from pars.run.comparison import ComparedRun, check_runs, train_all
from pars.run.config import RunConfig, in_shares
from pars.run.train import Log

HELD_OUT = 0.1  # of the labels, where the configuration holds out none
SELDOM = 10**9  # epochs: evaluated at the end of each stage only


def search_learning_rates(
    runs: Sequence[ComparedRun],
    rates: Sequence[float],
    share: float,
    out: Path,
    progress: Callable[[], Callback] | None = None,
    log: Log = lambda line: None,
) -> list[ComparedRun]:
    """The runs with the best of these learning rates each; every try is a line of `out`/search.jsonl.

    A try has the share of the budget (or of the epochs). Nothing but given labels that were held out chooses.
    """
    for each in runs:
        _check_rates(each, rates, out)
    tries = {
        (each.name, rate): ComparedRun(
            f"{each.name}, lr {rate:g}",
            _at_rate(_shortened(each.config, share), rate),
            _folder_of(each, out) / f"{rate:g}",
        )
        for each in runs
        for rate in rates
    }
    check_runs(list(tries.values()))
    lines, chosen = [], {}
    for each in runs:
        own = [tries[each.name, rate] for rate in rates]
        results = dict(zip(rates, train_all(own, progress, log).values(), strict=True))
        chosen[each.name] = best(results, each.name)
        for rate, result in results.items():
            is_best = rate == chosen[each.name]
            lines.append(_described(each, rate, share, result) | {"chosen": is_best})
        write_text(out / "search.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        edge = chosen[each.name] in (min(rates), max(rates)) and len(rates) > 1
        log(f"{each.name}: learning rate {chosen[each.name]:g}" + (", at the edge of those tried" if edge else ""))
    return [replace(each, config=_at_rate(each.config, chosen[each.name])) for each in runs]


def _folder_of(compared: ComparedRun, out: Path) -> Path:
    """Where the tries of a method are."""
    return out / "search" / compared.name


def _check_rates(compared: ComparedRun, rates: Sequence[float], out: Path) -> None:
    """A run that was begun has the best of the rates that were tried then: others come too late."""
    if not RunFolder(compared.out).config.exists():
        return
    tried = {path.name for path in _folder_of(compared, out).glob("*") if path.is_dir()}
    if tried != {f"{rate:g}" for rate in rates}:
        then = f"the best of {', '.join(sorted(tried))}" if tried else "not searched for"
        raise UserError(
            f"{compared.out} holds a run whose learning rate is {then}, "
            f"not the best of {', '.join(f'{rate:g}' for rate in rates)} as asked for; choose another --out"
        )


def _shortened(config: RunConfig, share: float) -> RunConfig:
    """The configuration of a try: a part of the budget, held-out labels, and no more evaluations than needed."""
    config = in_shares(config)
    train, data = config.train, config.data
    epochs = train.epochs if train.budget else max(1, round(share * train.epochs))
    return replace(
        config,
        data=data if data.holdout else replace(data, holdout=HELD_OUT),
        train=replace(train, budget=share * train.budget, epochs=epochs, evaluate_every=SELDOM, dynamics_every=0),
    )


def _at_rate(config: RunConfig, rate: float) -> RunConfig:
    return replace(config, train=replace(config.train, lr=rate))


def _held_out_accuracy(result: Mapping[str, Any]) -> float:
    """Agreement (%) of the averaged weights with held-out given labels at the end."""
    return float(result["holdout"]["ema"]["last"])


def best(results: Mapping[float, Mapping[str, Any] | None], name: str) -> float:
    """The rate with most held-out labels predicted; of equals the smallest."""
    found = {rate: _held_out_accuracy(result) for rate, result in results.items() if result is not None}
    if not found:
        raise UserError(f"{name} diverged at every learning rate of --search-lr; smaller ones may do")
    return min(found, key=lambda rate: (-found[rate], rate))


def _described(each: ComparedRun, rate: float, share: float, result: Mapping[str, Any] | None) -> dict[str, Any]:
    line = {"method": each.name, "lr": rate, "budget": share * each.config.train.budget, "seed": each.config.seed}
    if result is None:
        return line | {"diverged": True}
    return line | {"epochs": result["epochs"], "flop": result["flop"], "holdout": _held_out_accuracy(result)}
