"""Audit the labels of a training run from its per-example training dynamics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.audit.calibration import Floats, Integers, calibrate, log_probabilities, log_sum_exp, softmax
from pars.audit.check import Array, check_labels, check_probabilities
from pars.audit.posterior import label_margin
from pars.audit.report import AuditReport, percent
from pars.audit.scoring import score
from pars.errors import UserError
from pars.files import read_arrays
from pars.run_files import RunFiles, check_files, check_run_format

ENOUGH_HELD_OUT = 100  # labeled rows; fewer are too few to calibrate on
MEMORIZED = 0.1  # excess agreement with training labels above which late predictions are not used
USUAL_LEAD = 0.6  # logits: margin of training labels minus that of held-out ones, without memorization
WEIGHTS = np.linspace(0, 1, 11)  # candidate weights of the linear model
LINEAR_WEIGHT = 0.25  # of the linear model, with too few held-out labels to choose it
MOSTLY_LINEAR = 0.7  # weight from which on the report has a warning
Mask = npt.NDArray[np.bool_]
# Names of the training dynamics, and of the columns of a report.
COLUMNS = {
    "margin_late_mean": "margin_avg",
    "margin_early_mean": "margin_early",
    "p_mean": "p_mean",
    "p_std": "p_std",
    "agree": "agree",
    "forgotten": "forget",
    "first_agree": "first_agree",
}


@dataclass(frozen=True)
class Chosen:
    """The probabilities [n, K] that the audit is based on."""

    probabilities: Floats
    early: Array | None = None  # [n, K] predictions early in training, as a further view
    warnings: tuple[str, ...] = ()
    held_out_disagreement: float | None = None  # fraction of held-out labels that are not predicted
    memorized: bool = False  # even these probabilities reflect memorized labels


def from_dynamics(
    dynamics: Mapping[str, Any],
    labels: npt.ArrayLike | None = None,
    *,
    classes: Sequence[str] | None = None,
    features: npt.ArrayLike | None = None,
) -> AuditReport:
    """Return the audit of a run's training rows from their training dynamics.

    dynamics: arrays [n] or [n, K] by name, from `trainer.recorded()` or dynamics.safetensors.
    labels [n]: the given labels, if the report should use other names than the run's class numbers.
    classes [K]: names of the classes.
    features [n, ...]: for the votes of the nearest neighbors, such as the inputs of a frozen encoder.
    """
    rows = {name: np.asarray(values) for name, values in dynamics.items()}
    for name in ("late", "given", "held_out"):
        if name not in rows:
            raise UserError(f"dynamics have no {name!r}: expected the arrays of Trainer.recorded()")
    late = check_probabilities(rows["late"], "dynamics['late']")
    given = rows["given"] if labels is None else labels
    numbers = check_labels(given, len(late), late.shape[1], classes).numbers
    early = check_probabilities(rows["early"], "dynamics['early']") if "early" in rows else None
    held_out = rows["held_out"].astype(bool)
    chosen = choose_probabilities(late, early, numbers, held_out)
    if "linear" in rows:
        linear = check_probabilities(rows["linear"], "dynamics['linear']")
        chosen = mix_with_linear(chosen, linear, numbers, held_out)
    evidence: dict[str, Array] = {column: rows[name] for name, column in COLUMNS.items() if name in rows}
    evidence["label_used_in_loss"] = (numbers >= 0) & ~held_out
    # What no label of its own has influenced: leave-one-out predictions, or those of held-out rows.
    unseen = [rows["linear"]] if "linear" in rows else []  # linear models do not suit all images
    if held_out.any():
        unseen.append(np.where(held_out[:, None], chosen.probabilities, np.nan))
    scores: dict[str, Array] = {name: rows[name] for name in ("agree", "p_last") if name in rows}
    if "margin_mean" in rows:
        scores["aum"] = rows["margin_mean"]
    return score(
        chosen.probabilities,
        given,
        classes=classes,
        early=chosen.early,
        features=features,
        evidence=evidence,
        estimates={} if (rate := chosen.held_out_disagreement) is None else {"held_out": rate},
        warnings=chosen.warnings,
        scores=scores,
        unseen=unseen,
    )


def choose_probabilities(late: Array, early: Array | None, labels: Integers, held_out: Mask) -> Chosen:
    """Return the mean of early and late predictions, or early ones alone if the late ones have memorized labels.

    late, early [n, K]; labels [n], -1 = unlabeled; held_out [n].
    Memorization is measured against held-out labels, which cannot be memorized. Without them, late predictions have
    memorized labels if they agree with more labels than the early ones estimate to be correct. The margin of training
    labels is slightly above that of held-out ones even without memorization; any further excess is subtracted.
    """
    trained, probe = (labels >= 0) & ~held_out, (labels >= 0) & held_out
    has_probe = probe.sum() >= ENOUGH_HELD_OUT and trained.any()
    if early is None:
        out = Chosen(late.astype(np.float64))
    elif words := _memorization_warning(late, early, labels, trained, probe if has_probe else None):
        out = Chosen(early.astype(np.float64), warnings=(words,))
    else:
        out = Chosen((early.astype(np.float64) + late.astype(np.float64)) / 2, early)
    if not has_probe:
        return out
    on_trained, on_held_out = (_agreement(out.probabilities, labels, rows) for rows in (trained, probe))
    memorized = on_trained - on_held_out > MEMORIZED + _two_standard_errors(on_held_out, probe)
    return replace(
        _subtract_lead(out, labels, trained, probe), held_out_disagreement=1 - on_held_out, memorized=memorized
    )


def _memorization_warning(late: Array, early: Array, labels: Integers, trained: Mask, probe: Mask | None) -> str | None:
    """The evidence that late predictions have memorized labels; None if there is none."""
    found = _agreement(late, labels, trained)
    if probe is None:
        # Early predictions may still be poor: their agreement alone would underestimate how many labels are correct.
        correct = 1 - score(early, np.where(trained, labels, -1)).noise_rate
        reference, margin = max(correct, _agreement(early, labels, trained)), 0.0
        compared = f"early predictions estimate {percent(reference)} to be correct"
    else:
        reference = _agreement(late, labels, probe)
        margin = _two_standard_errors(reference, probe)
        compared = f"{percent(reference)} of held-out labels"
    if found - reference <= MEMORIZED + margin:
        return None
    return (
        f"the network predicts {percent(found)} of its training labels, {compared}: it has memorized labels. "
        "Only early predictions are used, and the noise rate may be underestimated"
    )


def _two_standard_errors(fraction: float, rows: Mask) -> float:
    """Of a fraction of these rows."""
    return 2 * float(np.sqrt(fraction * (1 - fraction) / rows.sum()))


def _subtract_lead(chosen: Chosen, labels: Integers, trained: Mask, probe: Mask) -> Chosen:
    """Lower the logits of training labels until their mean margin exceeds that of held-out ones by the usual lead."""
    log_p = log_probabilities(chosen.probabilities)
    margin = label_margin(log_p, labels)
    lead = float(margin[trained].mean() - margin[probe].mean())
    if lead <= USUAL_LEAD:
        return chosen
    rows = np.flatnonzero(trained)
    log_p[rows, labels[rows]] -= lead - USUAL_LEAD
    words = (
        f"the margin of training labels is {lead:.1f} logits above that of held-out ones; "
        f"{lead - USUAL_LEAD:.1f} are subtracted"
    )
    return replace(chosen, probabilities=softmax(log_p, 1.0), warnings=(*chosen.warnings, words))


def mix_with_linear(chosen: Chosen, linear: Array, labels: Integers, held_out: Mask) -> Chosen:
    """Return the geometric mean of the network's probabilities and those of a leave-one-out linear model [n, K].

    The weight maximizes the likelihood of held-out labels, which neither model has seen. If the network has memorized
    its training labels even early, and is worse than the linear model on held-out ones, it is left out.
    """
    network, leave_one_out = (calibrate(log_probabilities(p), labels) for p in (chosen.probabilities, linear))
    probe = np.flatnonzero((labels >= 0) & held_out)
    weight = LINEAR_WEIGHT
    if len(probe) >= ENOUGH_HELD_OUT:
        weight = float(
            max(
                WEIGHTS,
                key=lambda w: _label_likelihood(_mixed(network[probe], leave_one_out[probe], w), labels[probe]),
            )
        )
    words = chosen.warnings
    if weight >= MOSTLY_LINEAR:
        weight = 1.0 if chosen.memorized else weight
        words += (
            "a linear model predicts held-out labels better than the network; "
            f"its weight in this audit is {percent(weight)}",
        )
    return replace(chosen, probabilities=np.exp(_mixed(network, leave_one_out, weight)), warnings=words)


def _mixed(network: Floats, linear: Floats, weight: float) -> Floats:
    """The weighted geometric mean of probabilities; all are logarithms [n, K]."""
    mean = (1 - weight) * network + weight * linear
    out: Floats = mean - log_sum_exp(mean)[:, None]
    return out


def _label_likelihood(log_p: Floats, labels: Integers) -> float:
    """Mean log-probability of the labels at their own best temperature."""
    return float(calibrate(log_p, labels)[np.arange(len(labels)), labels].mean())


def _agreement(p: Array, labels: Integers, rows: Mask) -> float:
    """Fraction of these rows whose label is predicted."""
    return float((p[rows].argmax(axis=1) == labels[rows]).mean()) if rows.any() else 0.0


def audit_run(folder: str | Path, *, features: npt.ArrayLike | None = None) -> AuditReport:
    """Return the audit of a finished run, from its folder alone.

    features [n, ...]: for the votes of the nearest neighbors.
    """
    path = Path(folder)
    files = RunFiles(path)
    if not files.config.exists():
        lacks = f"{files.config} is missing" if path.is_dir() else "expected a folder"
        raise UserError(f"{path} is not a run: {lacks}")
    check_run_format(path)
    if not files.model.exists():
        raise UserError(f"{path} is not finished: `pars resume {path}` completes it")
    file = files.dynamics
    if not file.exists():
        raise UserError(
            f"{file} is missing: the run was trained with train.dynamics_every = 0, which records no training dynamics"
        )
    arrays, _ = read_arrays(file)
    classes = _read_classes(files.model)
    check_files(path, file.name, files.model.name, files.inputs.name)
    try:
        return from_dynamics(arrays, classes=classes, features=features)
    except UserError as error:
        raise UserError(f"{file}: {error}") from error


def _read_classes(path: Path) -> list[str]:
    """The class names of a run, in the order of the network's outputs."""
    _, note = read_arrays(path, names=())
    classes = note.get("classes")
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise UserError(f"{path} is damaged: classes are {classes!r}, expected a list of names")
    return classes
