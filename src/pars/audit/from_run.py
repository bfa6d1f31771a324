"""The audit of a training run, from its per-example training dynamics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.audit.calibration import Floats, Integers, calibrate, log_probabilities, log_sum_exp, sharpened
from pars.audit.check import Array, check_labels, check_probabilities
from pars.audit.explain import percent
from pars.audit.posterior import label_margin
from pars.audit.report import AuditReport
from pars.audit.score import score
from pars.errors import UserError
from pars.files import read_arrays
from pars.run_format import check_run_format

ENOUGH_HELD_OUT = 100  # labeled rows; fewer say nothing certain about the others
MEMORIZED = 0.1  # agreement above what is explained, from which late answers are not used
USUAL_LEAD = 0.6  # logits by which trained labels lead held-out ones where nothing was memorized
WEIGHTS = np.linspace(0, 1, 11)  # of the linear model, tried
LINEAR_WEIGHT = 0.25  # where too few labels are held out to try
MOSTLY_LINEAR = 0.7  # from which on it is said
# Of the dynamics, under the names of a report's columns.
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
    """The probabilities an audit goes by, another view of the rows, and what has to be said about them."""

    probabilities: Floats
    other: Array | None = None
    warnings: tuple[str, ...] = ()
    held_out_disagreement: float | None = None
    memorizes: bool = False  # even these repeat labels memorized


def from_dynamics(
    dynamics: Mapping[str, Any],
    labels: npt.ArrayLike | None = None,
    *,
    classes: Sequence[str] | None = None,
    features: npt.ArrayLike | None = None,
) -> AuditReport:
    """Audit the rows of a run from `trainer.recorded()` or its file.

    labels [n]: as the run was given them, where other words than its class numbers are wanted. features [n, …]: for the
    votes of nearest neighbors, such as frozen inputs.
    """
    rows = {name: np.asarray(values) for name, values in dynamics.items()}
    for name in ("late", "given", "held_out"):
        if name not in rows:
            raise UserError(f"dynamics have no {name!r}: expected what Trainer.recorded gives")
    late = check_probabilities(rows["late"], "dynamics['late']")
    given = rows["given"] if labels is None else labels
    numbers = check_labels(given, len(late), late.shape[1], classes).numbers
    early = check_probabilities(rows["early"], "dynamics['early']") if "early" in rows else None
    held_out = rows["held_out"].astype(bool)
    chosen = choose(late, early, numbers, held_out)
    if "linear" in rows:
        linear = check_probabilities(rows["linear"], "dynamics['linear']")
        chosen = with_linear(chosen, linear, numbers, held_out)
    evidence: dict[str, Array] = {column: rows[name] for name, column in COLUMNS.items() if name in rows}
    evidence["label_used_in_loss"] = (numbers >= 0) & ~held_out
    return score(
        chosen.probabilities,
        given,
        classes=classes,
        early=chosen.other,
        features=features,
        evidence=evidence,
        estimates={} if (rate := chosen.held_out_disagreement) is None else {"held_out": rate},
        warnings=chosen.warnings,
    )


def choose(late: Array, early: Array | None, labels: Integers, held_out: npt.NDArray[np.bool_]) -> Chosen:
    """The mean of early and late answers; early ones alone where late ones repeat labels memorized.

    How far labels are memorized is seen on labels that were held out: on those it cannot have been. Without them
    late answers repeat too many if they repeat more labels than early ones say are right. Where nothing was learned by
    heart, labels that were trained on lead held-out ones a little; what they lead by more is taken off.
    """
    trained, probe = (labels >= 0) & ~held_out, (labels >= 0) & held_out
    has_probe = probe.sum() >= ENOUGH_HELD_OUT and trained.any()
    if early is None:
        out = Chosen(late.astype(np.float64))
    elif words := memorized(late, early, labels, trained, probe if has_probe else None):
        out = Chosen(early.astype(np.float64), warnings=(words,))
    else:
        out = Chosen((early.astype(np.float64) + late.astype(np.float64)) / 2, early)
    if not has_probe:
        return out
    known, unknown = (agreement(out.probabilities, labels, rows) for rows in (trained, probe))
    memorizes = known - unknown > MEMORIZED + by_chance(unknown, probe)
    return replace(shifted(out, labels, trained, probe), held_out_disagreement=1 - unknown, memorizes=memorizes)


def memorized(
    late: Array, early: Array, labels: Integers, trained: npt.NDArray[np.bool_], probe: npt.NDArray[np.bool_] | None
) -> str | None:
    """What shows that late answers repeat labels memorized; none where nothing does."""
    found = agreement(late, labels, trained)
    if probe is None:
        # Early answers may still be poor: not how many labels they repeat counts, but how many they say are right.
        right = 1 - score(early, np.where(trained, labels, -1)).noise_rate
        reference, chance, against = (
            max(right, agreement(early, labels, trained)),
            0.0,
            "were right by its early answers",
        )
    else:
        reference, against = agreement(late, labels, probe), "of those held out"
        chance = by_chance(reference, probe)
    if found - reference <= MEMORIZED + chance:
        return None
    return (
        f"the network repeats {percent(found)} of the labels it was trained on, {percent(reference)} {against}: "
        "it memorized labels; only its early answers are used, and more labels may be wrong than is said"
    )


def by_chance(share: float, rows: npt.NDArray[np.bool_]) -> float:
    """Two standard errors of a share of these rows."""
    return 2 * float(np.sqrt(share * (1 - share) / rows.sum()))


def shifted(chosen: Chosen, labels: Integers, trained: npt.NDArray[np.bool_], probe: npt.NDArray[np.bool_]) -> Chosen:
    """Take off what trained labels lead held-out ones by, as far as it is more than usual."""
    log_p = log_probabilities(chosen.probabilities)
    margin = label_margin(log_p, labels)
    lead = float(margin[trained].mean() - margin[probe].mean())
    if lead <= USUAL_LEAD:
        return chosen
    rows = np.flatnonzero(trained)
    log_p[rows, labels[rows]] -= lead - USUAL_LEAD
    words = f"labels that were trained on lead held-out ones by {lead:.1f} logits; all but {USUAL_LEAD} are taken off"
    return replace(chosen, probabilities=sharpened(log_p, 1.0), warnings=(*chosen.warnings, words))


def with_linear(chosen: Chosen, linear: Array, labels: Integers, held_out: npt.NDArray[np.bool_]) -> Chosen:
    """The geometric mean of the network's answers and those of a linear model that did not see the row's label.

    The weights are those under which held-out labels are likeliest: of these the network has not seen any either. To
    labels that it was trained on it may answer by heart, even early: if it does, and is the worse of the two on
    held-out ones, it has nothing to add.
    """
    ours, theirs = (calibrate(log_probabilities(p), labels) for p in (chosen.probabilities, linear))
    probe = np.flatnonzero((labels >= 0) & held_out)
    weight = LINEAR_WEIGHT
    if len(probe) >= ENOUGH_HELD_OUT:
        weight = float(
            max(WEIGHTS, key=lambda w: label_likelihood(mixed(ours[probe], theirs[probe], w), labels[probe]))
        )
    words = chosen.warnings
    if weight >= MOSTLY_LINEAR:
        weight, part = (1.0, "all") if chosen.memorizes else (weight, "most")
        words += (
            f"a linear model predicts held-out labels better than the network does; it speaks for {part} of what "
            "follows",
        )
    return replace(chosen, probabilities=np.exp(mixed(ours, theirs, weight)), warnings=words)


def mixed(ours: Floats, theirs: Floats, weight: float) -> Floats:
    """The geometric mean of probabilities, all as logarithms."""
    mean = (1 - weight) * ours + weight * theirs
    out: Floats = mean - log_sum_exp(mean)[:, None]
    return out


def label_likelihood(log_p: Floats, labels: Integers) -> float:
    """Mean log-probability of labels at the temperature that suits them best."""
    return float(calibrate(log_p, labels)[np.arange(len(labels)), labels].mean())


def agreement(p: Array, labels: Integers, rows: npt.NDArray[np.bool_]) -> float:
    """Share of these rows whose label is the prediction."""
    return float((p[rows].argmax(axis=1) == labels[rows]).mean()) if rows.any() else 0.0


def audit_run(folder: str | Path, *, features: npt.ArrayLike | None = None) -> AuditReport:
    """Audit the labels of a finished run from its folder alone."""
    path = Path(folder)
    if not (path / "config.toml").exists():
        raise UserError(f"{path} is not a run: {path / 'config.toml'} is missing")
    check_run_format(path)
    if not (path / "model.safetensors").exists():
        raise UserError(f"{path} is not finished: `pars resume {path}` completes it")
    file = path / "dynamics.safetensors"
    if not file.exists():
        raise UserError(
            f"{file} is missing: the run was trained with train.dynamics_every = 0, so nothing was recorded"
        )
    arrays, _ = read_arrays(file)
    classes = read_classes(path / "model.safetensors")
    try:
        return from_dynamics(arrays, classes=classes, features=features)
    except UserError as error:
        raise UserError(f"{file}: {error}") from error


def read_classes(path: Path) -> list[str]:
    """The names of a run's classes, in the order of its network."""
    _, note = read_arrays(path, names=())
    classes = note.get("classes")
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise UserError(f"{path} is damaged: classes are {classes!r}, expected a list of names")
    return classes
