"""Train a configuration: in memory, in a new run folder, or by resuming the run in a folder."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from operator import call
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pars import report
from pars.data import NAMES, Dataset, DiskImages, data_root
from pars.engine import (
    Callback,
    Processes,
    RunFolder,
    Trainer,
    check_row_state,
    choose_threads,
    keep_freed_memory,
    recorded_threads,
    resolve_device,
    use_threads,
    write_text,
)
from pars.errors import UserError
from pars.files import expanded
from pars.run import inputs, plans, toml
from pars.run.classifier import Classifier, load_run
from pars.run.config import RunConfig, label_file
from pars.run.inputs import open_run
from pars.run.training_data import TrainingData, first_files, load_training_data

Log = Callable[[str], None]
SEALED = (".json", ".jsonl", ".csv", ".safetensors")  # how the files of a run end that nobody changes after it


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished training: its configuration, its result in numbers, and what was trained."""

    config: RunConfig
    result: dict[str, Any]
    trainer: Trainer | None = None  # none where the run in `folder` had been finished before
    folder: RunFolder | None = None

    def classifier(self) -> Classifier:
        """The trained classifier, on the CPU; read from the folder only where it was not trained just now."""
        trainer = self.trainer
        if trainer is None:
            assert self.folder is not None
            return load_run(self.folder.path, device="cpu")
        networks = tuple(copy.deepcopy(net.average).cpu().eval() for net in trainer.nets)
        rows, shape = trainer.data, trainer.data.train.inputs.shape[1:]
        return Classifier(networks, rows.classes, shape, rows.mean, rows.std, trainer.views, "cpu")


def train(
    config: RunConfig,
    out: str | Path,
    *,
    dataset: Dataset | None = None,
    networks: Sequence[nn.Module] | None = None,
    callback: Callback | None = None,
    title: str = "train",
    log: Log = lambda line: None,
    processes: Processes | None = None,
) -> dict[str, Any]:
    """Train in a new folder and return the result. `dataset` and `networks` replace what the configuration names.

    With a budget, `log` receives a sentence with the epochs that it buys. `processes`: those that train together, each
    calling this with the same arguments; the first of them writes the folder.
    """
    given = {"dataset": dataset is not None, "networks": networks is not None}
    trained = _train_new(config, RunFolder(Path(out)), dataset, networks, given, callback, title, log, processes)
    return trained.result


def resume(
    out: str | Path,
    *,
    dataset: Dataset | None = None,
    networks: Sequence[nn.Module] | None = None,
    callback: Callback | None = None,
    title: str = "resume",
    processes: Processes | None = None,
) -> dict[str, Any]:
    """Resume the run in a folder and return its result; a finished run is only read.

    The number of `processes` may differ from before; with the same number the outcome is the same, bit for bit.
    """
    return _resume(out, dataset, networks, callback, title, processes).result


def train_or_resume(
    config: RunConfig,
    out: str | Path | None = None,
    *,
    dataset: Dataset | TrainingData | None = None,
    networks: Sequence[nn.Module] | None = None,
    dataset_is_named: bool = False,
    callback: Callback | None = None,
    title: str = "train",
    log: Log = lambda line: None,
) -> Trained:
    """Train in memory (`out` is None), in a new folder, or resume the run that a folder holds.

    A folder with a run of another configuration is refused. `dataset_is_named`: `config.data.name` is a file with the
    rows of `dataset`, so the run can later be resumed without passing them. Several runs on the same data, noise, views
    and seed may share the `TrainingData` that `load_training_data` returns.
    """
    folder = None if out is None else RunFolder(Path(out))
    if folder is not None and folder.config.exists():
        # Rows that are given are checked by their checksums, wherever they lie: a fit's folder may be moved.
        check_same_configuration(folder, config, ignore=["data.name"] if dataset_is_named else ())
        return _resume(folder.path, dataset, networks, callback, title)
    given = {"dataset": dataset is not None and not dataset_is_named, "networks": networks is not None}
    return _train_new(config, folder, dataset, networks, given, callback, title, log)


def check_same_configuration(folder: RunFolder, config: RunConfig, *, ignore: Sequence[str] = ()) -> None:
    """Refuse a folder whose run has another configuration; `ignore` names keys that may differ."""
    _, found = open_run(folder.path)
    for key, (asked, there) in plans.differences(canonical(config), found).items():
        if key not in ignore:
            raise UserError(
                f"{folder.path} holds a run with {key} = {there!r}, not {asked!r} as asked for; choose another --out"
            )


def _train_new(
    config: RunConfig,
    folder: RunFolder | None,
    dataset: Dataset | TrainingData | None,
    networks: Sequence[nn.Module] | None,
    given: inputs.Given,
    callback: Callback | None,
    title: str,
    log: Log,
    processes: Processes | None = None,
) -> Trained:
    processes = processes or Processes()
    in_first = call if processes.size == 1 else processes.in_first
    if folder is not None:
        in_first(folder.check_free)  # before the work, not after it
    config = canonical(config)
    training = dataset if isinstance(dataset, TrainingData) else load_training_data(config, dataset)
    modules = training.networks(config) if networks is None else networks
    plan = None
    if config.train.budget:
        config, plan = plans.planned(config, training, modules)
        log(plans.sentence(plan, config.train.budget))
    if isinstance(training.data.train.inputs, DiskImages):
        labels = torch.from_numpy(training.data.train.labels)
        train, classes = config.train, training.data.n_classes
        dynamics = train.dynamics_every > 0
        log(check_row_state(config.method, labels, classes, epochs=train.epochs, dynamics=dynamics))
    by_epoch = () if plan is None else plan.by_epoch
    trainer = build_trainer(
        config,
        training,
        folder,
        networks=modules,
        callback=callback,
        title=title,
        planned=by_epoch,
        processes=processes,
    )
    threads = None
    if trainer.device == "cpu":  # as many in all processes: sums are added in another order with another number
        threads = choose_threads(trainer.step_flop)
        if processes.size > 1:
            threads = int(processes.broadcast(str(threads)))
    if folder is None:
        with use_threads(threads):
            return _finish(trainer, config)
    files = {} if plan is None else {folder.plan: plans.dumps(plan)}
    files |= first_files(folder, config, training, given, threads)
    with ExitStack() as begun, use_threads(threads):
        in_first(lambda: begun.enter_context(folder.begin(files)))
        return _finish(trainer, config)


def _resume(
    out: str | Path,
    dataset: Dataset | TrainingData | None,
    networks: Sequence[nn.Module] | None,
    callback: Callback | None,
    title: str,
    processes: Processes | None = None,
) -> Trained:
    processes = processes or Processes()
    folder, config = open_run(out)
    recorded, given = inputs.read(folder)
    if folder.result.exists() and folder.model.exists():
        inputs.check_settings(folder, toml.to_dict(config))
        if isinstance(dataset, TrainingData):  # of a fit: the rows as they are now
            inputs.check_same(folder, recorded, dataset.data_record, dataset.noise, dataset.data.name)
        lines = report.read_run(folder.path).metrics
        return Trained(config, summarize(lines), folder=folder)
    inputs.check_given(folder, given, dataset=dataset, networks=networks)
    inputs.check_settings(folder, toml.to_dict(config))
    with ExitStack() as held:
        processes.in_first(lambda: held.enter_context(folder.lock()))
        training = dataset if isinstance(dataset, TrainingData) else load_training_data(config, dataset)
        inputs.check_same(folder, recorded, training.data_record, training.noise, training.data.name)
        report.read_metrics(folder.metrics)  # a damaged one is named before it is rewritten
        planned = plans.read(folder, config.train.epochs) if config.train.budget else ()
        trainer = build_trainer(
            config,
            training,
            folder,
            networks=networks,
            callback=callback,
            title=title,
            planned=planned,
            processes=processes,
        )
        trainer.restore()
        with use_threads(None if trainer.device != "cpu" else recorded_threads(inputs.read_threads(folder))):
            return _finish(trainer, config)


def _finish(trainer: Trainer, config: RunConfig) -> Trained:
    folder = trainer.folder
    if folder is not None and trainer.device == "cpu":
        keep_freed_memory()  # a trainer inside somebody else's program must not
    trainer.run()
    result = summarize(trainer.history)
    if folder is not None and trainer.processes.rank == 0:
        # Settings are checked by themselves; a finished run does not need its checkpoint.
        kept = (folder.config.name, folder.result.name, folder.files.name, folder.checkpoint.name)
        files = [file for file in sorted(folder.path.iterdir()) if file.suffix in SEALED and file.name not in kept]
        sums = {file.name: inputs.checksum(np.fromfile(file, dtype=np.uint8)) for file in files}
        write_text(folder.files, json.dumps(sums, indent=1) + "\n")
        write_text(folder.result, json.dumps(result, indent=2) + "\n")
    return Trained(config, result, trainer, folder)


def canonical(config: RunConfig) -> RunConfig:
    """The configuration as its run folder has it: plain values, absolute paths, the kind of noise spelled out.

    Names of published data sets stay names, and paths that do not exist stay as given, for the message about them.
    """
    config = toml.conforming(config)
    data, noise = config.data, config.noise.resolved()
    with suppress(OSError):  # the name is too long for a file
        if data.name not in NAMES and (file := expanded(data.name)).exists():
            data = replace(data, name=str(file.resolve()))
    if data.root is not None:
        data = replace(data, root=str(data_root(data.root).resolve()))
    with suppress(OSError):
        if noise.path is not None and (file := label_file(config)).exists():
            noise = replace(noise, path=str(file.resolve()))
    model = config.model
    with suppress(OSError):
        if model.weights not in ("pretrained", "none") and (file := expanded(model.weights)).exists():
            model = replace(model, weights=str(file.resolve()))
    return replace(config, data=data, noise=noise, model=model)


def build_trainer(
    config: RunConfig,
    training: TrainingData,
    folder: RunFolder | None,
    *,
    networks: Sequence[nn.Module] | None = None,
    callback: Callback | None = None,
    title: str = "train",
    planned: Sequence[float] = (),
    processes: Processes | None = None,
) -> Trainer:
    """A trainer at the beginning of a run; a budget that has no plan yet is planned here."""
    modules = training.networks(config) if networks is None else networks
    if config.train.budget and not planned:
        config, plan = plans.planned(config, training, modules)
        planned = plan.by_epoch
    return Trainer(
        method=config.method,
        data=training.data,
        networks=modules,
        views=training.views,
        config=config.train,
        seed=config.seed,
        device=resolve_device(config.device),
        held_out=training.held_out,
        judging=training.judging,
        folder=folder,
        callback=callback,
        title=title,
        planned=planned,
        processes=processes,
    )


def summarize(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Last, best and last-10 accuracy of averaged and raw weights, what it cost, and where each stage ended.

    lines: of metrics.jsonl, one for each epoch.
    The headline is the last epoch's averaged weights. `best` picks the epoch by the test set itself: it is there for
    comparison with papers that report it, and is optimistic. `selected` is there where train.select
    chose, by held-out labels, the checkpoint that the run ended with.
    """
    if not lines:
        raise UserError("the run's metrics.jsonl is missing or empty: there is no epoch to sum up")
    last = lines[-1]
    out: dict[str, Any] = {key: last[key] for key in ("images", "flop", "flop_by_stage", "selection")} | {
        "epochs": last["epoch"]
    }
    if "stopped" in last:
        out["stopped"] = last["stopped"]  # "budget": before its last epoch
    out |= {split: found for split in ("test", "holdout") if (found := report.outcome(lines, split)) is not None}
    kept = ("stage", "epoch", "flop", "test", "holdout")
    out["stages"] = [{key: end[key] for key in kept if key in end} for *_, end in report.by_stage(lines)]
    if choices := [line["selected"] for line in lines if "selected" in line]:
        chosen = next(line for line in lines if line["epoch"] == choices[-1])
        out["selected"] = {key: chosen[key] for key in kept if key in chosen}
    return out
