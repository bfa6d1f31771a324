"""Start, resume and load runs: the one path that the command, the demo and the benchmarks share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from pars import report
from pars.data import Dataset
from pars.engine import (
    Callback,
    RunFolder,
    Trainer,
    keep_freed_memory,
    recorded_threads,
    resolve_device,
    use_threads,
    write_json,
)
from pars.errors import UserError
from pars.run import inputs, plans, toml
from pars.run.config import RunConfig
from pars.run.paths import with_absolute_paths
from pars.run.prepare import Prepared, first_files, prepare
from pars.run.result import summarize


def train(
    config: RunConfig,
    out: str | Path,
    *,
    dataset: Dataset | None = None,
    networks: Sequence[nn.Module] | None = None,
    callback: Callback | None = None,
    title: str = "train",
    log: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train in a new folder and return the result. `dataset` and `networks` replace what the configuration names.

    With a budget, `log` receives a sentence with the epochs that it buys.
    """
    folder = RunFolder(Path(out))
    folder.check_free()  # before the work, not after it
    config = normal(config)
    prepared = prepare(config, dataset)
    modules = prepared.networks(config) if networks is None else networks
    config, plan = plans.planned(config, prepared, modules)
    by_epoch, files = ((), {}) if plan is None else (plan.by_epoch, {folder.plan: plans.dumps(plan)})
    if plan is not None:
        log(plans.sentence(plan, config.train.budget))
    trainer = build(config, prepared, folder, networks=modules, callback=callback, title=title, planned=by_epoch)
    given = {"dataset": dataset is not None, "networks": networks is not None}
    threads = trainer.suitable_threads()
    with folder.begin(files | first_files(folder, config, prepared, given, threads)), use_threads(threads):
        return finish(trainer, folder)


def normal(config: RunConfig) -> RunConfig:
    """As it is written into the folder of its run: plain values, whole paths, the kind of noise spelled out."""
    checked = toml.conforming(config)
    return with_absolute_paths(replace(checked, noise=checked.noise.resolved()))


def resume(
    out: str | Path,
    *,
    dataset: Dataset | None = None,
    networks: Sequence[nn.Module] | None = None,
    callback: Callback | None = None,
    title: str = "resume",
) -> dict[str, Any]:
    """Go on with the run in a folder; a finished one is only reported."""
    folder, config = open_run(out)
    if folder.result.exists() and folder.model.exists():
        return summarize(report.read_metrics(folder.metrics))
    then, given = inputs.read(folder)
    inputs.check_given(folder, given, dataset=dataset, networks=networks)
    inputs.check_settings(folder, toml.to_dict(config))
    with folder.lock():
        prepared = prepare(config, dataset)
        inputs.check_same(folder, then, prepared.data_record, prepared.noise, prepared.data.name)
        report.read_metrics(folder.metrics)  # a damaged one is named before it is rewritten
        planned = plans.read(folder, config.train.epochs) if config.train.budget else ()
        trainer = build(config, prepared, folder, networks=networks, callback=callback, title=title, planned=planned)
        trainer.restore()
        with use_threads(None if trainer.device != "cpu" else recorded_threads(inputs.read_threads(folder))):
            return finish(trainer, folder)


def finish(trainer: Trainer, folder: RunFolder) -> dict[str, Any]:
    if trainer.device == "cpu":
        keep_freed_memory()  # here: a trainer inside somebody else's program must not
    trainer.run()
    result = summarize(report.read_metrics(folder.metrics))
    write_json(folder.result, result)
    return result


def build(
    config: RunConfig,
    prepared: Prepared,
    folder: RunFolder | None,
    *,
    networks: Sequence[nn.Module] | None = None,
    callback: Callback | None = None,
    title: str = "train",
    planned: Sequence[float] = (),
) -> Trainer:
    """A trainer at the beginning of a run; a budget that was not planned yet is planned here."""
    modules = prepared.networks(config) if networks is None else networks
    if not planned:
        config, plan = plans.planned(config, prepared, modules)
        planned = () if plan is None else plan.by_epoch
    return Trainer(
        method=config.method,
        data=prepared.data,
        networks=modules,
        views=prepared.views,
        config=config.train,
        seed=config.seed,
        device=resolve_device(config.device),
        held_out=prepared.held_out,
        folder=folder,
        callback=callback,
        title=title,
        planned=planned,
    )


def open_run(path: str | Path) -> tuple[RunFolder, RunConfig]:
    """The folder of a run and its configuration."""
    folder = RunFolder(Path(path))
    if not folder.config.exists():
        raise UserError(f"{path} is not a run: {folder.config} is missing")
    return folder, toml.read(folder.config, RunConfig())
