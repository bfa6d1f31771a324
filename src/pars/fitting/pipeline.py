"""Fit a user's rows: a robust classifier, a plain one at the same cost, the audit, and whether it helped."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pars import audit, autoconfig, data, encode, run
from pars.audit import AuditReport
from pars.autoconfig import DEFAULTS
from pars.data import Dataset, Labels, Table
from pars.encode import EncoderName, Preprocessor
from pars.engine import RunFolder, resend_interrupt, show_progress
from pars.errors import EncoderChosenWarning, UserError
from pars.fit_folder import PLAIN, ROBUST, ROWS
from pars.fitting.folder import ROWS_CHECKSUM, Arrays, check_folder, fingerprint, save_rows, write_job
from pars.fitting.gain import gain, noise_corrected
from pars.fitting.prediction import Predictor
from pars.fitting.result import FitResult
from pars.fitting.rows import read_rows
from pars.fitting.training import (
    Progress,
    Training,
    choose_config,
    epochs_for_flop,
    no_progress,
    train_config,
)
from pars.run import RunConfig

LEAST_HELD_OUT = 0.2  # of few rows, where the automatic settings would hold out none
BASELINE = "plain training"
Log = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How rows are fitted.

    method: a name of `pars methods`. encoder: for texts and pictures, as `pars encode` takes it; None: chosen.
    encoded_views: weak and strong views of every row that are encoded, too.
    reading: arguments of `data.read_table`, with which files of new rows are read later.
    """

    method: str = "pars"
    encoder: EncoderName | None = None
    encoded_views: int = 0
    seed: int = 0
    device: str = "auto"
    reading: Mapping[str, Any] = field(default_factory=dict)

    def job(self, *tables: Table | None) -> dict[str, Any]:
        """What a fit depends on, as JSON values: two equal jobs have equal results."""
        named = self.encoder if isinstance(self.encoder, str | None) else getattr(self.encoder, "__name__", "function")
        reading = {name: value for name, value in self.reading.items() if value is not None}
        job = {"method": self.method, "encoder": named, "encoded_views": self.encoded_views, "seed": self.seed}
        return job | {"columns": reading, ROWS_CHECKSUM: fingerprint(*tables)}


def fit(
    rows: Any,
    labels: Any = None,
    *,
    method: str = "pars",
    out: str | Path | None = None,
    test: Any = None,
    test_labels: Any = None,
    encoder: EncoderName | None = None,
    encoded_views: int = 0,
    unlabeled: str | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: bool = False,
    **columns: Any,
) -> FitResult:
    """Train on rows whose labels may be wrong; return the classifier, the audit and whether it helped.

    rows, labels, unlabeled, columns: as `read_rows` takes them.
    method: a name of `pars methods`. It is compared with plain cross-entropy at the same cost.
    out: a folder for both runs, the audit and what new rows need. The same call resumes an interrupted fit. Without it
        nothing is written.
    test, test_labels: further rows whose labels are right; they then decide whether it helped.
    encoder: for texts and pictures, a name as in `pars encode` or a function; None: chosen, with a warning.
    encoded_views: number of weak and of strong views of every text or picture to encode and train on.
    progress: show progress on stderr.

    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(-2, 1, (60, 3)), rng.normal(2, 1, (60, 3))])
    >>> y = np.repeat(["left", "right"], 60)
    >>> y[:10] = "right"                                   # wrong
    >>> result = fit(x, y)
    >>> result.predict(x[20:22]).tolist(), int(result.audit.is_label_issue[:10].sum())
    (['left', 'left'], 10)
    """
    options = {"encoder": encoder, "unlabeled": unlabeled, **columns}
    table = read_rows(rows, labels, **options)
    if test is not None:
        test_labels = labels if test_labels is None and isinstance(labels, str) else test_labels
        test = read_rows(test, test_labels, classes=table.classes, **options)
    reading = {"label": labels if isinstance(labels, str) else None, "unlabeled": unlabeled, **columns}
    settings = FitSettings(
        method=method, encoder=encoder, encoded_views=encoded_views, seed=seed, device=device, reading=reading
    )
    with torch.random.fork_rng(), resend_interrupt():
        return fit_table(table, settings, test=test, out=None if out is None else Path(out), progress=progress)


def fit_table(
    table: Table,
    settings: FitSettings,
    *,
    test: Table | None = None,
    true_labels: Labels | None = None,
    out: Path | None = None,
    progress: bool = False,
    log: Log | None = None,
) -> FitResult:
    """Fit a table that was read and checked (`read_rows`); `true_labels` replace those of the table.

    `log` receives what was chosen without being asked for; by default it is a warning.
    """
    if true_labels is not None:
        table = replace(table, true_labels=true_labels)
    dataset, preprocessor = _dataset(table, test, settings, out, progress, log or _warn)
    show: Progress = show_progress if progress else no_progress
    robust = _train(dataset, settings.method, settings, None if out is None else out / ROBUST, show)
    plain = _train(dataset, "ce", settings, None if out is None else out / PLAIN, show, same_cost_as=robust)
    return _compare(robust, plain, table, settings.method, preprocessor, out)


def audit_fit(out: Path) -> AuditReport:
    """The audit of a finished fit from its folder, as the fit itself made it."""
    inputs = data.arrays(out / ROWS).train.inputs
    return audit.audit_run(out / ROBUST, features=inputs if inputs.ndim == 2 else None)


def _dataset(
    table: Table, test: Table | None, settings: FitSettings, out: Path | None, progress: bool, log: Log
) -> tuple[Dataset, Preprocessor]:
    """The rows as inputs, and how new rows become such; of a fit that is resumed, those in its folder."""
    if out is not None:
        job = settings.job(table, test)
        check_folder(out, job, table.source)
        if (out / ROWS).exists():
            named = settings.encoder if callable(settings.encoder) or is_function_name(settings.encoder) else None
            return data.arrays(out / ROWS), encode.load_preprocessor(out, named)
    preprocessor = replace(encode.fit_preprocessor(table, settings.encoder), read_options=dict(settings.reading))
    if preprocessor.note:
        log(preprocessor.note)
    views = encode.default_cached_views(settings.encoded_views, settings.seed)
    preprocessor.check_views(views)
    if out is not None:
        write_job(out, job)
    with _encoding_progress(preprocessor, progress, table, test) as step:
        x, x_views = preprocessor.transform(table, views, step)
        arrays: Arrays = {"x": x, "y": table.labels, "classes": np.array(table.classes), "ids": np.array(table.ids)}
        if x_views is not None:
            arrays["x_views"] = x_views
        if table.true_labels is not None:
            arrays["y_true"] = table.true_labels
        if test is not None:
            arrays |= {"x_test": preprocessor.transform(test, step=step)[0], "y_test": test.labels}
    if out is not None:
        save_rows(out, table, preprocessor, arrays)
    return data.array_dataset(arrays, Path(table.source) if out is None else out / ROWS), preprocessor


def is_function_name(encoder: Any) -> bool:
    """Whether an encoder is a function by name, which a folder may not name: loading must not import code."""
    return isinstance(encoder, str) and encoder.startswith("python:")


def _train(
    dataset: Dataset,
    method: str,
    settings: FitSettings,
    folder: Path | None,
    progress: Progress,
    *,
    same_cost_as: Training | None = None,
) -> Training:
    if folder is not None and same_cost_as is None and RunFolder(folder).config.exists():
        config = run.open_run(folder)[1]  # chosen when the fit was begun
        trials: dict[str, float] = {}
    else:
        config, trials = _choose(dataset, method, settings, progress)
    if folder is not None:
        config = replace(config, data=replace(config.data, name=str(folder.parent / ROWS)))
    if same_cost_as is not None:
        epochs = epochs_for_flop(config, dataset, same_cost_as.trained.result["flop"])
        train = replace(config.train, epochs=epochs, dynamics_every=0)
        config = replace(config, data=same_cost_as.config.data, train=train)
    title = method if same_cost_as is None else BASELINE
    return Training(dataset, train_config(config, dataset, folder, progress=progress, title=title), trials)


def _choose(
    dataset: Dataset, method: str, settings: FitSettings, progress: Progress
) -> tuple[RunConfig, dict[str, float]]:
    """The estimator's automatic settings, with some rows held out however few there are."""
    held_out = autoconfig.held_out_share(dataset) or LEAST_HELD_OUT
    if not data.holdout(dataset.train.labels, held_out, settings.seed).any():
        n = int((dataset.train.labels >= 0).sum())
        raise UserError(f"{n} rows with a label are too few to hold some out and to say whether it helped")
    params = {**DEFAULTS, "method": method, "device": settings.device, "holdout": held_out}
    return choose_config(dataset, params, settings.seed, progress=progress)


def _compare(
    robust: Training, plain: Training, table: Table, method: str, preprocessor: Preprocessor, out: Path | None
) -> FitResult:
    dataset = robust.dataset
    labels, inputs = dataset.train.labels, dataset.train.inputs
    models = [training.trained.classifier() for training in (robust, plain)]
    ours, theirs = (model.predict_proba(inputs).argmax(dim=1).numpy() for model in models)
    held_out, true = robust.held_out, dataset.train.true_labels
    report = robust.audit()
    judged = held_out & (labels >= 0)
    measured = gain(ours[judged], theirs[judged], labels[judged])
    clean = None
    if dataset.test is not None:
        first, second = (model.predict_proba(dataset.test.inputs).argmax(dim=1).numpy() for model in models)
        known = dataset.test.labels >= 0
        clean = gain(first[known], second[known], dataset.test.labels[known])
    elif true is not None and (known := held_out & (true >= 0)).any():
        clean = gain(ours[known], theirs[known], true[known])
    return FitResult(
        method=method,
        classes=dataset.classes,
        predictor=Predictor(models[0], preprocessor),
        audit=report,
        held_out=held_out,
        predictions=ours,
        plain_predictions=theirs,
        held_out_gain=measured,
        corrected_gain=noise_corrected(measured, report.noise_rate, dataset.n_classes),
        clean_gain=clean,
        selected_checkpoint=_earlier_checkpoint(robust.trained.result),
        out=out,
    )


def _earlier_checkpoint(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """The stage and epoch of the selected weights, where they are not those of the last epoch."""
    selected: dict[str, Any] | None = result.get("selected")
    return None if selected is None or selected["epoch"] == result["epochs"] else selected


@contextmanager
def _encoding_progress(
    preprocessor: Preprocessor, progress: bool, *tables: Table | None
) -> Iterator[Callable[[int], None] | None]:
    """Progress of an encoder; rows that need none are read in a moment."""
    if preprocessor.encoder is None or not progress:
        yield None
        return
    shown = show_progress(epochs=False)
    shown.start(sum(len(table) for table in tables if table is not None), 0, f"encode {preprocessor.encoder.name}")
    try:
        yield shown.step
    finally:
        shown.stop()


def _warn(note: str) -> None:
    warnings.warn(note, EncoderChosenWarning, stacklevel=4)
