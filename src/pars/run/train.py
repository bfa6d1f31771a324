"""Start, resume and load runs: the one path that the command, the demo and the benchmarks share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from pars.data import Dataset
from pars.engine import RunFolder, Trainer, Watcher, resolve_device, write_json
from pars.errors import UserError
from pars.run import toml
from pars.run.config import RunConfig
from pars.run.prepare import Prepared, prepare, write_inputs
from pars.run.result import summarise


def train(
    config: RunConfig,
    out: Path,
    *,
    dataset: Dataset | None = None,
    networks: Sequence[nn.Module] | None = None,
    watcher: Watcher | None = None,
    title: str = "train",
) -> dict[str, Any]:
    """Train in a new folder and return the result. `dataset` and `networks` replace what the configuration names."""
    folder = RunFolder(out)
    prepared = prepare(config, dataset)
    trainer = build(config, prepared, folder, networks=networks, watcher=watcher, title=title)
    folder.create()
    write_inputs(folder, config, prepared)
    return finish(trainer, folder)


def resume(
    out: Path,
    *,
    dataset: Dataset | None = None,
    networks: Sequence[nn.Module] | None = None,
    watcher: Watcher | None = None,
    title: str = "resume",
) -> dict[str, Any]:
    """Go on with the run in a folder; a finished one is only reported."""
    folder, config = open_run(out)
    prepared = prepare(config, dataset)
    trainer = build(config, prepared, folder, networks=networks, watcher=watcher, title=title)
    trainer.restore()
    return finish(trainer, folder)


def finish(trainer: Trainer, folder: RunFolder) -> dict[str, Any]:
    trainer.run()
    result = summarise(folder.read_metrics())
    write_json(folder.result, result)
    return result


def build(
    config: RunConfig,
    prepared: Prepared,
    folder: RunFolder | None,
    *,
    networks: Sequence[nn.Module] | None = None,
    watcher: Watcher | None = None,
    title: str = "train",
) -> Trainer:
    return Trainer(
        method=config.method,
        data=prepared.data,
        networks=prepared.networks(config) if networks is None else networks,
        views=prepared.views,
        config=config.train,
        seed=config.seed,
        device=resolve_device(config.device),
        held_out=prepared.held_out,
        folder=folder,
        watcher=watcher,
        title=title,
    )


def open_run(path: Path) -> tuple[RunFolder, RunConfig]:
    """The folder of a run and its configuration."""
    folder = RunFolder(path)
    if not folder.config.exists():
        raise UserError(f"{path} is not a run: {folder.config} is missing")
    return folder, toml.read(folder.config, RunConfig())
