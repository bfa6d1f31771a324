"""Explain an audit in words: the evidence for one row, and warnings about the data."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from pars.audit.calibration import Floats, Integers

if TYPE_CHECKING:
    from pars.audit.report import AuditReport

COMMON_CONFUSION = 0.02  # of the rows of a class; rarer confusions explain nothing


FEW_LABELS = 10
SHOWN = 5
DEPENDENT = 0.995  # agreement above which two views are not independent


def explain_row(report: AuditReport, row: int) -> str:
    """Return the evidence for and against the given label of a row, in words."""
    given, suggested = int(report.given[row]), int(report.suggested[row])
    best = report.classes[suggested]
    if given < 0:
        return f"no label; {best} is most probable ({percent(report.suggested_prob[row])})"
    right = report.label_right_prob[row]
    name = report.classes[given]
    if report.is_label_issue[row]:
        words = [f"{best} is more probable ({percent(report.suggested_prob[row])}) than {name} ({percent(right)})"]
        share = float(report.transition_matrix[suggested, given])
        if share >= COMMON_CONFUSION:
            words.append(f"{percent(share)} of {best} are labeled {name}")
    elif report.margin[row] > 0:
        words = [f"{name} is predicted, too ({percent(right)})"]
    else:
        words = [f"another class is predicted, but {name} is still the most probable ({percent(right)})"]
    words += _further_evidence(report, row, name)
    return "; ".join(words)


def _further_evidence(report: AuditReport, row: int, name: str) -> list[str]:
    """Training dynamics and nearest neighbors."""
    words, columns = [], report.evidence
    if "agree" in columns:
        words.append(f"predicted {name} in {percent(columns['agree'][row])} of the epochs")
    if "knn_agree" in columns:
        words.append(f"{percent(columns['knn_agree'][row])} of its neighbors are labeled {name}")
    if "label_used_in_loss" in columns and not columns["label_used_in_loss"][row]:
        words.append("held out: this label was not used for training")
    return words


def percent(fraction: float) -> str:
    """Return a fraction in percent without decimals; 0 % and 100 % only if exact.

    >>> percent(0.514), percent(0.001), percent(0.9999), percent(1.0)
    ('51 %', '<1 %', '>99 %', '100 %')
    """
    if 0 < fraction < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= fraction < 1 else f"{100 * fraction:.0f} %"


def find_warnings(
    transition: Floats, labels: Integers, predicted: Integers, views: Mapping[str, Integers], classes: tuple[str, ...]
) -> list[str]:
    """Return warnings about swapped classes, classes with few labels, and views that are not independent.

    transition [K, K]; labels [n], -1 = unlabeled; predicted [n]; views: further predictions [n] by name.
    """
    counts = np.bincount(labels[labels >= 0], minlength=len(classes))
    out = _swapped_classes(transition, counts, classes)
    if (few := np.flatnonzero(counts < FEW_LABELS)).size:
        names = ", ".join(f"{classes[k]} ({counts[k]})" for k in few[:SHOWN]) + (", …" if few.size > SHOWN else "")
        out.append(f"few labels of: {names}; estimates for these classes rely on all classes")
    named = {"the prediction": predicted, **{f"the {name} view": view for name, view in views.items()}}
    for (name, one), (other_name, other) in combinations(named.items(), 2):
        if float((one == other).mean()) > DEPENDENT:
            out.append(f"{name} and {other_name} nearly always agree: these two estimates are not independent")
    return out


def _swapped_classes(transition: Floats, counts: Integers, classes: tuple[str, ...]) -> list[str]:
    """Classes that are mostly labeled as another one. No method can tell noise above 50 % from swapped names."""
    others = transition * (1 - np.eye(len(transition)))
    worst = others.argmax(axis=1)
    rows = np.arange(len(transition))
    bad = np.flatnonzero((others[rows, worst] > transition[rows, rows]) & (counts > 0))
    shown = [f"{classes[j]} as {classes[worst[j]]} ({100 * others[j, worst[j]]:.0f} %)" for j in bad[:SHOWN]]
    return [f"mostly labeled as another class: {', '.join(shown)}; are these classes swapped?"] if shown else []
