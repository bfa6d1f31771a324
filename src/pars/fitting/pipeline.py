"""Fit a user's rows: a robust classifier, a plain one at the same cost, the audit, and whether it helped."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars import audit, autoconfig, data, encode, run
from pars.audit import AuditReport, Content
from pars.autoconfig import DEFAULTS, Progress
from pars.classic import CLASSIC, ClassicClassifier, fit_classic, is_classic_folder, load_fit, save_fit
from pars.data import Dataset, Labels, Split, Table
from pars.encode import Encoder, Preprocessor
from pars.engine import RunFolder, show_progress
from pars.errors import EncoderChosenWarning, UserError
from pars.files import PART, remove_halves, write_atomically, write_text
from pars.fit_folder import AUDIT, BEFORE, CONTENT, JOB, PLAIN, RESULT, ROBUST, ROWS
from pars.fitting.prediction import Predictor
from pars.fitting.result import FitResult, gain, noise_corrected
from pars.fitting.settings import ROWS_CHECKSUM, FitSettings
from pars.fitting.simpler import LINEAR, better_linear
from pars.fitting.training import (
    ClassicTraining,
    Training,
    check_request,
    choose_config,
    epochs_for_flop,
    method_of,
    no_progress,
)
from pars.run import Classifier
from pars.run_files import FILES, RunFiles, check_files, check_run_format

LEAST_HELD_OUT = 0.2  # of few rows, where the automatic settings would hold out none
FEWEST_KNOWN = 10  # held-out rows with a known label, to measure accuracies on them
BASELINE = "plain training"
AFTER_ROWS = (ROBUST, PLAIN, BEFORE, AUDIT, RESULT, FILES)  # of the folder, what is written when the rows are there
Log = Callable[[str], None]


def fit_table(
    table: Table,
    settings: FitSettings,
    *,
    test: Table | None = None,
    true_labels: Labels | None = None,
    out: Path | None = None,
    checked_labels: Path | None = None,
    progress: bool = False,
    log: Log | None = None,
) -> FitResult:
    """Fit a table that was read and checked (`read_rows`); `true_labels` replace those of the table.

    checked_labels: the file that the table's checked labels are from, to say what the review changed.
    `log` receives what was chosen without being asked for; by default it is a warning.
    """
    if true_labels is not None:
        table = replace(table, true_labels=true_labels)
    test = table.test if test is None else test
    check_request(settings.method, settings.network, settings.device, table)
    dataset, preprocessor = _dataset(table, test, settings, out, progress, log or _warn)
    show: Progress = show_progress if progress else no_progress
    robust, held_out = _train_robust(dataset, settings, None if out is None else out / ROBUST, show, log or _warn)
    plain = None
    if settings.baseline:
        plain = _train_plain(robust, settings, None if out is None else out / PLAIN, show)
    result = _compare(robust, plain, held_out, settings.method, preprocessor, content_of(table), out)
    if checked_labels is not None:
        from pars.fitting.retraining import measure_retraining  # no part of a fit without checked labels

        retraining = measure_retraining(checked_labels, robust, result, settings, test=test, progress=show)
        result = replace(result, retraining=retraining)
    if out is not None:
        remove_halves(out, out / AUDIT)
        audit.write_audit(result.audit, out / AUDIT, ["csv"], content=result.content)
        write_text(out / RESULT, json.dumps({"out": str(out), **result.summary()}, indent=1) + "\n")
    return result


def audit_fit(out: Path) -> AuditReport:
    """The audit of a finished fit from its folder, as the fit itself made it."""
    check_files(out, ROWS, JOB)
    dataset = data.arrays(out / ROWS)
    if is_classic_folder(out / ROBUST):
        report = ClassicTraining(dataset, load_fit(out / ROBUST, rows=dataset.train)).audit()
    else:
        run.check_data_of(out / ROBUST, dataset)
        report = audit.audit_run(out / ROBUST, features=dataset.train.features)
    return report if dataset.train.checked is None else report.with_checked(dataset.train.known)


def _dataset(
    table: Table, test: Table | None, settings: FitSettings, out: Path | None, progress: bool, log: Log
) -> tuple[Dataset, Preprocessor]:
    """The rows as inputs, and how new rows become such; of a fit that is resumed, those in its folder."""
    if out is not None:
        job = settings.job(table, test)
        _check_folder(out, job, table.source)
        is_whole = (out / FILES).exists()  # written last, and before any run begins
        if not is_whole and (out / ROBUST).exists():
            raise UserError(f"{out} was written by an older version of pars, or lost {FILES}: fit in a new folder")
        if (out / ROWS).exists() and is_whole:
            check_files(out)
            return data.arrays(out / ROWS), encode.load_preprocessor(out, settings.function)
    if table.true_labels is not None:
        strange = np.flatnonzero((table.true_labels >= 0) & ~np.isin(table.true_labels, table.labels))
        if len(strange):
            name = table.classes[table.true_labels[strange[0]]]
            raise UserError(
                f"{table.source}: the true label of row {strange[0]} is {name[:60]!r}, which is the given label of "
                f"no row ({len(strange)} such rows); is it another column?"
            )
    side = None if settings.network == "auto" else autoconfig.pixel_side(settings.network)
    network = None if table.kind != "text" or settings.network == "auto" else settings.network
    preprocessor = encode.fit_preprocessor(table, settings.encoder, side=side, network=network)
    preprocessor = replace(preprocessor, read_options=dict(settings.reading))
    if preprocessor.note:
        log(preprocessor.note)
    views = None
    if settings.encoded_views:
        views = encode.default_cached_views(settings.encoded_views, settings.seed)
        preprocessor.check_views(views)  # before the encoder's work
    path = Path(table.source) if out is None else out / ROWS
    data.check_class_names(table.classes, str(path))
    made = []
    if out is not None:
        made = [folder for folder in (out, *out.parents) if not folder.exists()]
        out.mkdir(parents=True, exist_ok=True)  # before the encoder's work: it may be impossible
        write_text(out / JOB, json.dumps(job, indent=1) + "\n")
    encoder, rest = preprocessor.encoder, None  # without an encoder, rows are read in a moment
    try:
        with _encoding_progress(encoder, table, test) if encoder is not None and progress else nullcontext() as step:
            x, cached = preprocessor.transform(table, views, step)
            as_inputs = data.to_inputs if preprocessor.tokenizer is None else data.to_tokens
            train = Split(as_inputs(x, f"{path}: x"), table.labels, table.true_labels, cached, table.checked)
            if test is not None:
                x, _ = preprocessor.transform(test, step=step)
                rest = Split(as_inputs(x, f"{path}: x_test"), test.labels, test.labels)
        dataset = data.checked_dataset(path, train, rest, table.classes)
    except UserError:
        if made:  # nothing was there, and nothing is left
            (made[0] / JOB).unlink()
            for folder in made:
                folder.rmdir()
        raise
    if out is not None:
        _save_rows(out, table, preprocessor, train, rest)
    return dataset, preprocessor


def _check_folder(out: Path, job: Mapping[str, Any], source: str) -> None:
    """Refuse a folder that holds another fit, or anything else; one without rows and runs has nothing to lose."""
    if (out / JOB).exists():
        begun = (out / ROWS).exists() or (out / ROBUST).exists()
        for folder in (out / ROBUST, out / PLAIN):
            if RunFiles(folder).inputs.exists():
                check_run_format(folder)
        if begun and (found := _read_job(out / JOB)) != job:
            if isinstance(found, dict) and found | {ROWS_CHECKSUM: job[ROWS_CHECKSUM]} == job:
                raise UserError(f"{source} has changed since {out} was begun; expected a new folder")
            raise UserError(f"{out} holds another fit (see {out / JOB}), expected the same settings or a new folder")
    elif out.is_symlink() and not out.exists():
        raise UserError(f"{out} is a link to something that does not exist; choose another --out")
    elif out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file, expected a folder for the fit; choose another --out")
    elif out.exists() and any(out.iterdir()):
        raise UserError(f"{out} is not empty and holds no fit, expected a new folder; choose another --out")


def _save_rows(out: Path, table: Table, preprocessor: Preprocessor, train: Split, test: Split | None) -> None:
    """Write how new rows become inputs, what people are shown, and last the arrays that are trained on."""
    remove_halves(out, *(path for path in out.iterdir() if path.is_dir()))
    encode.save_preprocessor(preprocessor, out)
    source = str(Path(table.source).resolve()) if Path(table.source).exists() else None
    # json escapes to ASCII: a text may hold lone surrogates, which UTF-8 cannot encode.
    write_text(out / CONTENT, json.dumps(asdict(content_of(table)) | {"source": source}, indent=0) + "\n")
    arrays = {"x": train.inputs, "y": train.labels, "classes": np.array(table.classes), "ids": np.array(table.ids)}
    if train.is_text:
        arrays["tokens"] = np.array(True)
    if train.cached is not None:
        arrays["x_views"] = train.cached
    if train.checked is not None:
        arrays["checked"] = train.checked
    if train.true_labels is not None:
        arrays["y_true"] = train.true_labels
    if test is not None:
        arrays |= {"x_test": test.inputs, "y_test": test.labels}

    def write(beside: Path) -> None:
        with beside.open("wb") as file:  # of a path without its suffix numpy would write another file
            np.savez(file, **arrays)  # type: ignore[arg-type]

    write_atomically(out / ROWS, write)
    sums = {
        file.relative_to(out).as_posix(): run.checksum(np.fromfile(file, dtype=np.uint8))
        for file in sorted(out.rglob("*"))
        if file.is_file() and file.relative_to(out).parts[0] not in AFTER_ROWS and PART not in file.name
    }
    write_text(out / FILES, json.dumps(sums, indent=1) + "\n")  # last: with it, the rows are there


def content_of(table: Table) -> Content:
    """What people are shown of each row: its text or image, and its name."""
    if table.images is not None:
        return Content("image", [str(path.resolve()) for path in table.images], table.ids)
    return Content("text", table.texts, table.ids)


def _read_job(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None  # damaged: no fit that could be resumed


def _train_robust(
    dataset: Dataset, settings: FitSettings, folder: Path | None, progress: Progress, log: Log
) -> tuple[Training | ClassicTraining, npt.NDArray[np.bool_]]:
    """The method with automatic settings, and the rows [n] held out: some, however few rows there are.

    In place of PARS, logistic regression where it is clearly better on them; then the folder holds both.
    """
    classic = settings.method in CLASSIC
    if folder is not None and RunFolder(folder).config.exists():
        config = run.open_run(folder)[1]  # chosen when the fit was begun
        trials: dict[str, float] = {}
        loaded = run.load_training_data(config, dataset)
    else:
        # Without a network of its own, a method holds out the rows that plain training does.
        network = "auto" if classic else settings.network
        method = "ce" if classic else settings.method
        params = {**DEFAULTS, "method": method, "device": settings.device, "network": network}
        config, trials, loaded = choose_config(
            dataset, params, settings.seed, least_held_out=LEAST_HELD_OUT, progress=progress
        )
        if not loaded.held_out.any():
            n = int((dataset.train.labels >= 0).sum())
            raise UserError(f"{n} rows with a label are too few to hold some out and to say whether it helped")
    if classic:
        return _fit_classic(dataset, settings, loaded.held_out, folder), loaded.held_out
    if folder is not None:
        config = replace(config, data=replace(config.data, name=str(folder.parent / ROWS)))
    trained = run.train_or_resume(
        config,
        folder,
        dataset=loaded,
        dataset_is_named=folder is not None,
        callback=progress(),
        title=method_of(settings.method, config),
    )
    if settings.network == "auto":
        is_linear = folder is not None and is_classic_folder(folder)
        found = None if is_linear else better_linear(trained, settings.method, dataset, loaded)
        if found is not None:
            log(found)
        if found is not None or is_linear:
            settings = replace(settings, method=LINEAR)
            return _fit_classic(dataset, settings, loaded.held_out, folder), loaded.held_out
    return Training(dataset, trained, trials, loaded), loaded.held_out


def _fit_classic(
    dataset: Dataset, settings: FitSettings, held_out: npt.NDArray[np.bool_], folder: Path | None
) -> ClassicTraining:
    """A method without a network; one that is in the folder already is not fitted again."""
    if folder is not None and is_classic_folder(folder):
        return ClassicTraining(dataset, load_fit(folder, rows=dataset.train))
    fitted = fit_classic(settings.method, dataset, seed=settings.seed, held_out=held_out)
    if folder is not None:
        save_fit(fitted, folder, rows=dataset.train)
    return ClassicTraining(dataset, fitted)


def _train_plain(
    robust: Training | ClassicTraining, settings: FitSettings, folder: Path | None, progress: Progress
) -> Training:
    """Cross-entropy on the same rows, for as many epochs as cost what the robust method did if it is a network."""
    network = settings.network if isinstance(robust, Training) else "auto"
    params = {**DEFAULTS, "method": "ce", "device": settings.device, "network": network}
    configs = autoconfig.configurations(params, robust.dataset, settings.seed, least_held_out=LEAST_HELD_OUT)
    *_, config = configs.values()
    if isinstance(robust, Training):
        loaded, source = robust.loaded, robust.trained.config.data
        chosen = robust.trained.config  # the same network, regularized alike
        train = replace(config.train, weight_decay=chosen.train.weight_decay)
        config = replace(config, model=chosen.model, train=train)
        epochs = epochs_for_flop(config, loaded, robust.trained.result["flop"])
    else:
        loaded, epochs = run.load_training_data(config, robust.dataset), config.train.epochs
        source = replace(config.data, name=robust.dataset.name if folder is None else str(folder.parent / ROWS))
    trained = run.train_or_resume(
        replace(config, data=source, train=replace(config.train, epochs=epochs, dynamics_every=0)),
        folder,
        dataset=loaded,
        dataset_is_named=folder is not None,
        callback=progress(),
        title=BASELINE,
    )
    return Training(robust.dataset, trained, {}, loaded)


def _compare(
    robust: Training | ClassicTraining,
    plain: Training | None,
    held_out: npt.NDArray[np.bool_],
    asked: str,
    preprocessor: Preprocessor,
    content: Content,
    out: Path | None,
) -> FitResult:
    """The result of a fit; without plain training there is nothing to compare with."""
    dataset = robust.dataset
    labels, inputs, true = dataset.train.labels, dataset.train.inputs, dataset.train.true_labels
    model: Classifier | ClassicClassifier
    method = asked
    if isinstance(robust, Training):
        model, result = robust.trained.classifier(), robust.trained.result
        method = method_of(asked, robust.trained.config)
        selected = result.get("selected")
        if selected is not None and selected["epoch"] == result["epochs"]:
            selected = None
    else:
        model, selected, method = robust.fit.classifier, None, robust.fit.name
    models = [model] if plain is None else [model, plain.trained.classifier()]
    ours, *others = (model.predict_proba(inputs).argmax(dim=1).numpy() for model in models)
    report = robust.audit()
    if dataset.train.checked is not None:
        report = report.with_checked(dataset.train.known)
    # Rows that chose neither epoch nor loss: the best of many epochs is better on the rows that chose it by chance.
    judging = held_out if plain is None or not plain.loaded.judging.any() else plain.loaded.judging
    judged = judging & (labels >= 0)
    theirs = others[0] if others else None
    measured = None if theirs is None else gain(ours[judged], theirs[judged], labels[judged])
    clean = None
    if theirs is None:
        pass
    elif dataset.test is not None:
        first, second = (model.predict_proba(dataset.test.inputs).argmax(dim=1).numpy() for model in models)
        known = dataset.test.labels >= 0
        clean = gain(first[known], second[known], dataset.test.labels[known])
    elif true is not None and (known := judging & (true >= 0)).sum() >= FEWEST_KNOWN:
        clean = gain(ours[known], theirs[known], true[known])
    return FitResult(
        method=method,
        replaced=None if method == asked else asked,
        classes=dataset.classes,
        predictor=Predictor(model, preprocessor),
        audit=report,
        held_out=held_out,
        predictions=ours,
        plain_predictions=theirs,
        held_out_gain=measured,
        held_out_accuracy=float((ours[judged] == labels[judged]).mean()),
        corrected_gain=None if measured is None else noise_corrected(measured, report.noise_rate, dataset.n_classes),
        clean_gain=clean,
        selected_checkpoint=selected,
        same_cost=isinstance(robust, Training),
        content=content,
        out=out,
    )


@contextmanager
def _encoding_progress(encoder: Encoder, *tables: Table | None) -> Iterator[Callable[[int], None]]:
    """Progress of an encoder."""
    shown = show_progress(epochs=False)
    shown.start(sum(len(table) for table in tables if table is not None), 0, f"encode {encoder.name}")
    try:
        yield shown.step
    finally:
        shown.stop()


def _warn(note: str) -> None:
    warnings.warn(note, EncoderChosenWarning, stacklevel=4)
