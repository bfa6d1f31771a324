"""Train a robust method and plain cross-entropy on the same rows, audit the labels, and say whether it helped."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars import audit, data, run
from pars.audit import AuditReport
from pars.autoconfig import DEFAULTS, Watch, choose, configurations
from pars.data import Dataset
from pars.engine import Callback, RunFolder, load_tensors
from pars.errors import UserError
from pars.fit_folder import PLAIN, ROBUST, ROWS
from pars.proof.gain import Gain, despite_noise, gain
from pars.run import RunConfig

LEAST_HELD_OUT = 0.2  # share of few rows, where the automatic settings would hold out none


@dataclass(frozen=True, eq=False)
class Proof:
    """What became of a fit. Gains are of the robust method over plain training; accuracies are in 0..1."""

    report: AuditReport
    held_out: npt.NDArray[np.bool_]  # [n]
    robust: npt.NDArray[np.int64]  # [n] predictions of every row
    plain: npt.NDArray[np.int64]
    seen: Gain  # on held-out labels as they are
    clean: Gain | None  # the same, with what wrong labels hide taken into account; none where they hide too much
    tested: Gain | None  # on right labels, where some are known
    selected: dict[str, Any] | None  # the checkpoint that held-out labels preferred, where it was not the last

    def summary(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        told = {"held_out": self.seen, "without_noise": self.clean, "right_labels": self.tested}
        gains = {name: None if g is None else asdict(g) | {"verdict": g.verdict} for name, g in told.items()}
        return {"rows": len(self.held_out), "selected": self.selected, **gains, "labels": self.report.summary()}


def fit(out: Path, *, method: str = "pars", seed: int = 0, device: str = "auto", watch: Watch) -> Proof:
    """Both runs, in OUT/robust and OUT/plain, on OUT/rows.npz; what was begun there before is completed."""
    rows = out / ROWS
    dataset = data.arrays(rows)
    robust = begun(out / ROBUST) or settings(dataset, rows, method, seed, device, watch)
    result = train(robust, out / ROBUST, watch(), method)
    plain = settings(dataset, rows, "ce", seed, device, watch)
    epochs = equal_epochs(plain, dataset, result["flop"])
    plain = replace(plain, data=robust.data, train=replace(plain.train, epochs=epochs, dynamics_every=0))
    train(plain, out / PLAIN, watch(), "plain training")
    selected = result.get("selected")
    return compare(dataset, out, None if selected is None or selected["epoch"] == result["epochs"] else selected)


def begun(folder: Path) -> RunConfig | None:
    """The configuration of a run that was begun there."""
    return run.open_run(folder)[1] if RunFolder(folder).config.exists() else None


def settings(dataset: Dataset, rows: Path, method: str, seed: int, device: str, watch: Watch) -> RunConfig:
    """What the estimator would choose, with some rows held out whatever their number."""
    configs = configurations({**DEFAULTS, "method": method, "device": device}, dataset, seed)
    if not all(config.data.holdout for config in configs.values()):
        params = {**DEFAULTS, "method": method, "device": device, "holdout": LEAST_HELD_OUT}
        configs = configurations(params, dataset, seed)
    config, _ = choose(configs, dataset, watch=watch)
    if not data.holdout(dataset.train.labels, config.data.holdout, seed).any():
        n = int((dataset.train.labels >= 0).sum())
        raise UserError(f"{n} rows with a label are too few to hold some out and to say whether it helped")
    return replace(config, data=replace(config.data, name=str(rows)))


def equal_epochs(config: RunConfig, dataset: Dataset, flop: float) -> int:
    """So many epochs that plain training costs what the other run did."""
    trainer = run.build(config, run.prepare(config, dataset), None)
    labeled = int((trainer.feed.labels >= 0).sum())
    return max(1, round(flop / (trainer.learners[0].cost.training * labeled)))


def train(config: RunConfig, folder: Path, callback: Callback | None, title: str) -> dict[str, Any]:
    """Begin the run, or go on with it."""
    if RunFolder(folder).config.exists():
        return run.resume(folder, callback=callback, title=title)
    return run.train(config, folder, callback=callback, title=title)


def compare(dataset: Dataset, out: Path, selected: dict[str, Any] | None) -> Proof:
    labels, inputs = dataset.train.labels, dataset.train.inputs
    classifiers = [run.load_run(out / name) for name in (ROBUST, PLAIN)]
    first, second = (each.predict_proba(inputs).argmax(dim=1).numpy() for each in classifiers)
    held_out = load_tensors(RunFolder(out / ROBUST).dynamics)[0]["held_out"].numpy()
    judged = held_out & (labels >= 0)
    report = audited(out, dataset)
    seen = gain(first[judged], second[judged], labels[judged])
    tested, right = None, dataset.train.true_labels
    if dataset.test is not None:
        ours, theirs = (each.predict_proba(dataset.test.inputs).argmax(dim=1).numpy() for each in classifiers)
        known = dataset.test.labels >= 0
        tested = gain(ours[known], theirs[known], dataset.test.labels[known])
    elif right is not None:
        known = held_out & (right >= 0)
        tested = gain(first[known], second[known], right[known]) if known.any() else None
    clean = despite_noise(seen, report.noise_rate, dataset.n_classes)
    return Proof(report, held_out, first, second, seen, clean, tested, selected)


def audited(out: Path, dataset: Dataset | None = None) -> AuditReport:
    """The audit of a fit's robust run; neighbors are asked where rows are feature vectors."""
    inputs = (data.arrays(out / ROWS) if dataset is None else dataset).train.inputs
    return audit.audit_run(out / ROBUST, features=inputs if inputs.ndim == 2 else None)
