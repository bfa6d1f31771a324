"""What did a review change? The classifier of its labels against that of the labels before.

Both are compared on right labels that neither was trained on and that chose nothing:

- test rows, where there are some: with the classifier of the fit that was reviewed
- else rows of a blind sample, and rows whose true label was known without a review. The reviewed fit was trained on
  most of them, so the method is trained once more: same rows, same settings, with the labels before

Suspects that were checked do not count: they were chosen by where the reviewed classifier and the label differ. It is
right on those that were corrected to its suggestion, and wrong on those that were kept.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pars import data, run
from pars.autoconfig import Progress
from pars.classic import fit_classic
from pars.data import DROPPED, TRUSTED, UNCHECKED, UNLABELED, Dataset, Labels, Split, Table
from pars.errors import UserError
from pars.fit_folder import BEFORE, JOB, ROWS
from pars.fitting.prediction import load_predictor
from pars.fitting.result import FitResult, Retraining, gain
from pars.fitting.settings import FitSettings
from pars.fitting.training import ClassicTraining, Training
from pars.run_files import check_files

FEWEST_ROWS = 10  # with a right label; fewer say nothing
TITLE = "labels before"


def measure_retraining(
    checked_labels: Path,
    now: Training | ClassicTraining,
    result: FitResult,
    settings: FitSettings,
    *,
    test: Table | None,
    progress: Progress,
) -> Retraining:
    """Compare a fit on checked labels with the fit that `checked_labels` is a review of.

    now, result: what was just trained, and its predictions. test: the rows of `now.dataset.test`, to be read as the
    reviewed fit reads them. Without plain training (`settings.baseline`) no time is spent on a further training either.
    """
    dataset = now.dataset
    reviewed = checked_labels.resolve().parent.parent  # FIT/review/labels.csv
    try:
        if not (reviewed / JOB).exists():
            raise UserError(f"{checked_labels} is not in the folder review/ of a fit, so the fit before is not known.")
        before = _labels_before(reviewed, dataset)
    except UserError as error:
        return replace(_counts("", dataset.train, dataset.train.labels), reason=str(error))
    found = _counts(str(reviewed), dataset.train, before)
    if dataset.test is not None and test is not None:
        return _by_test_rows(found, reviewed, dataset, result, settings, test)
    rows, right = _right_labels(now)
    if len(rows) < FEWEST_ROWS:
        return replace(
            found,
            reason="the suspects you checked were chosen by the classifier before, so it cannot be compared on them. "
            f"Rows that can: a table with right labels (--test FILE), or a blind sample ({_sample_command(reviewed)}).",
        )
    if not settings.baseline:
        return replace(found, reason="that takes a further training, which --no-baseline leaves out.")
    theirs = _train_on(before, now, settings, result.out, progress)
    return replace(found, judged_by="held_out", change=gain(result.predictions[rows], theirs[rows], right))


def _sample_command(reviewed: Path) -> str:
    return f"pars review {reviewed.name} --sample 100"


def _labels_before(reviewed: Path, dataset: Dataset) -> Labels:
    """The labels that the reviewed fit was given [n], with the present class numbers; -1 = none."""
    check_files(reviewed, ROWS)
    before = data.arrays(reviewed / ROWS)
    if len(before.train) != len(dataset.train):
        raise UserError(f"{reviewed} is a fit of {len(before.train)} rows, these are {len(dataset.train)}.")
    return _renumbered(before.train.labels, before.classes, dataset.classes)


def _renumbered(labels: Labels, classes: tuple[str, ...], present: tuple[str, ...]) -> Labels:
    """The same classes with the numbers they have now; -1 for those that no row has any more."""
    numbers = [present.index(name) if name in present else UNLABELED for name in classes]
    return np.array([*numbers, UNLABELED], dtype=np.int64)[labels]


def _counts(reviewed: str, train: Split, before: Labels) -> Retraining:
    """What people decided, not judged yet."""
    corrected = train.known & (train.labels != before)
    dropped = 0 if train.checked is None else int((train.checked == DROPPED).sum())
    return Retraining(reviewed, int(corrected.sum()), int((train.known & ~corrected).sum()), dropped)


def _by_test_rows(
    found: Retraining, reviewed: Path, dataset: Dataset, result: FitResult, settings: FitSettings, test: Table
) -> Retraining:
    assert dataset.test is not None
    right = dataset.test.labels
    if (known := right >= 0).sum() < FEWEST_ROWS:
        return replace(found, reason=f"fewer than {FEWEST_ROWS} test rows have a label.")
    try:
        before = load_predictor(reviewed, encoder=settings.function)
        assert before.preprocessor is not None  # of a fit
        theirs = before.model.predict_proba(before.preprocessor.transform(test)[0], test.source)
    except UserError as error:
        return replace(found, reason=f"{error}.")
    others = _renumbered(theirs.argmax(dim=1).numpy(), tuple(before.model.classes), dataset.classes)
    ours = result.predictor.model.predict_proba(dataset.test.inputs).argmax(dim=1).numpy()
    return replace(found, judged_by="test", change=gain(ours[known], others[known], right[known]))


def _right_labels(now: Training | ClassicTraining) -> tuple[npt.NDArray[np.int64], Labels]:
    """Held-out rows that chose nothing, and their labels, where these are right whatever a classifier suggested."""
    train = now.dataset.train
    checked = np.full(len(train), UNCHECKED) if train.checked is None else train.checked
    right = np.full(len(train), UNLABELED) if train.true_labels is None else train.true_labels
    right = np.where(checked == TRUSTED, train.labels, np.where(checked == UNCHECKED, right, UNLABELED))
    judging = now.fit.held_out if isinstance(now, ClassicTraining) else now.loaded.judging
    rows = np.flatnonzero(judging & (right >= 0))
    return rows, right[rows]


def _train_on(
    labels: Labels, now: Training | ClassicTraining, settings: FitSettings, out: Path | None, progress: Progress
) -> Labels:
    """Predictions [n] of the same method with the same settings, but trained on `labels`, dropped rows included."""
    train = now.dataset.train
    dropped = np.zeros(len(train), dtype=bool) if train.checked is None else train.checked == DROPPED
    if isinstance(now, ClassicTraining):
        dataset = replace(now.dataset, train=replace(train, labels=labels))
        fitted = fit_classic(settings.method, dataset, seed=settings.seed, held_out=now.fit.held_out & ~dropped)
        return fitted.classifier.predict_proba(train.inputs).argmax(dim=1).numpy()
    loaded = now.loaded.data
    rows = replace(
        now.loaded,
        data=replace(loaded, train=replace(loaded.train, labels=labels)),
        held_out=now.loaded.held_out & ~dropped,
    )
    folder = None if out is None else out / BEFORE
    trained = run.train_or_resume(now.trained.config, folder, dataset=rows, callback=progress(), title=TITLE)
    return trained.classifier().predict_proba(train.inputs).argmax(dim=1).numpy()
