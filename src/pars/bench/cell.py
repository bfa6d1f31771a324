"""Run one cell: train (or resume) it in a folder of its own and return its line of the ledger."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pars import report, run
from pars.bench.record import BINS, about, origin
from pars.bench.scales import SCALES, Cell, Sources, configuration, fingerprint
from pars.bench.tables import ROWS
from pars.classic import CLASSIC, fit_classic
from pars.engine import accuracy, locked, recalls, write_text
from pars.errors import UserError
from pars.run_files import RunFiles


class InUse(Exception):
    """Another process is training this cell."""


def run_cell(
    cell: Cell, where: Sources, work: Path, command: Sequence[str], *, keep: bool = False, log: Callable[[str], None]
) -> dict[str, Any]:
    """The line of a cell. It is trained in `work`, resumed where it was stopped, and only read where it is finished.

    command: that reproduces it, for the line. keep: the run folder with its weights and curves. Raises `InUse`.
    """
    torch.set_num_threads(1)
    config = fingerprint(cell, where)
    folder = work / cell.name / config
    done = folder / "line.json"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / ".lock"))
        except UserError as error:
            raise InUse(str(error)) from None
        if done.exists():
            return dict(json.loads(done.read_text(encoding="utf-8")))
        if not RunFiles(folder / "run").config.exists():  # killed while it wrote its first files: it had not begun
            shutil.rmtree(folder / "run", ignore_errors=True)
        began, core = time.monotonic(), time.process_time()
        measure = _fit if ROWS[cell.row].method in CLASSIC else _train
        found = measure(cell, where, folder / "run", log)
        line = {
            **about(cell, config),
            **found,
            "seconds": round(time.monotonic() - began, 1),  # of the last process where it was resumed
            "core_seconds": round(time.process_time() - core, 1),
            **origin(command),
        }
        write_text(done, json.dumps(line) + "\n")
        if not keep:
            shutil.rmtree(folder / "run", ignore_errors=True)
        return line


def _loaded(cell: Cell, config: run.RunConfig) -> run.TrainingData:
    training = run.load_training_data(run.canonical(config))
    if cell.trial is not None:  # a search never sees the test set
        training = replace(training, data=replace(training.data, test=None))
    return training


def _train(cell: Cell, where: Sources, folder: Path, log: Callable[[str], None]) -> dict[str, Any]:
    config = configuration(cell, where)
    training = _loaded(cell, config)
    # As many evaluations for every method, whatever the epochs that the budget buys.
    epochs = run.build_trainer(config, training, None).config.epochs
    every = max(1, round(epochs / SCALES[cell.scale].evaluations))
    config = replace(config, train=replace(config.train, evaluate_every=every, checkpoint_every=every))
    trained = run.train_or_resume(config, folder, dataset=training, dataset_is_named=True, log=log)
    lines, result = report.read_metrics(folder / "metrics.jsonl"), trained.result
    measured = [line for line in lines if "test" in line or "holdout" in line]
    out = {
        **_training_facts(training),
        "networks": config.method.networks,
        "epochs": result["epochs"],
        "flop": result["flop"],
        "budget_flop": config.train.budget * 1e15,
        **_reported(measured),
        "curve": [_point(line) for line in measured],
        "stages": [[stage["stage"], stage["epoch"]] for stage in result["stages"]],
    }
    return out | _confidences(folder)


def _reported(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the averaged weights: the last epoch, the one that held-out given labels prefer, the best on the test set."""
    by_epoch = {line["epoch"]: line for line in measured}
    out = {"last": _numbers(measured[-1])}
    if "selected" in measured[-1]:
        out["selected"] = _numbers(by_epoch[measured[-1]["selected"]])
    if "test" in measured[-1]:
        out["best"] = _numbers(max(measured, key=lambda line: line["test"]["ema"]))
        out["raw_last"] = measured[-1]["test"]["raw"]
    return out


def _numbers(line: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"epoch": line["epoch"]}
    if "test" in line:
        test = line["test"]
        out |= {"accuracy": test["ema"], "balanced": test["balanced"], "worst_class": test["worst_class"]}
    if "holdout" in line:
        out["holdout"] = line["holdout"]["ema"]
    return out


def _point(line: Mapping[str, Any]) -> list[float | None]:
    """Epoch, FLOP, test and held-out accuracy."""
    test, held = (round(line[split]["ema"], 2) if split in line else None for split in ("test", "holdout"))
    return [line["epoch"], line["flop"], test, held]


def _confidences(folder: Path) -> dict[str, Any]:
    """How many rows with right and with wrong labels have which confidence at the end of training."""
    found = report.read_run(folder)
    if found.labels.true is None or not found.stages:
        return {}
    record = list(found.stages.values())[-1]
    edges = np.linspace(0, 1, BINS + 1)
    rows = {"right": found.labels.correct, "wrong": found.labels.wrong}
    return {
        "confidence": {
            name: np.histogram(record.confidence[mask].clip(0, 1), edges)[0].tolist() for name, mask in rows.items()
        }
    }


def _fit(cell: Cell, where: Sources, folder: Path, log: Callable[[str], None]) -> dict[str, Any]:
    """A classifier without a network on the rows, labels and test rows that networks have: one model, no epochs."""
    training = _loaded(cell, configuration(cell, where))
    settings = {**cell.settings.get("method", {}), **ROWS[cell.row].changes}
    fitted = fit_classic(
        ROWS[cell.row].method, training.data, params=settings, seed=cell.seed, held_out=training.held_out
    )
    data, model = training.data, fitted.classifier.model
    numbers: dict[str, Any] = {"epoch": None}
    if data.test is not None:
        x = np.asarray(data.test.inputs, dtype=np.float32)  # standardized already
        p, labels = torch.from_numpy(model.predict_proba(x)), torch.from_numpy(data.test.labels)
        numbers |= {"accuracy": accuracy(p, labels), **recalls(p, labels)}
    held = np.flatnonzero(training.held_out)
    p = torch.from_numpy(model.predict_proba(np.asarray(data.train.inputs[held], dtype=np.float32)))
    numbers["holdout"] = accuracy(p, torch.from_numpy(data.train.labels[held]))
    three = dict.fromkeys(("last", "selected", "best"), numbers) if data.test is not None else {"selected": numbers}
    return {**_training_facts(training), "networks": 0, "epochs": None, "flop": None, "budget_flop": None, **three}


def _training_facts(training: run.TrainingData) -> dict[str, Any]:
    labels = training.data.train.labels
    return {
        "rows": len(labels),
        "labeled": int((labels >= 0).sum()),
        "held_out": int(training.held_out.sum()),
        "noise_rate": training.noise.realized_rate,
        "data": {
            split: record["inputs_blake2b"]
            for split, record in training.data_record.items()
            if isinstance(record, dict)
        },
    }
