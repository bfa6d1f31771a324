"""Explain an audit in words: the evidence on one row, and warnings about the whole."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from pars.audit.calibration import Floats, Integers

if TYPE_CHECKING:
    from pars.audit.report import AuditReport

USUAL_CONFUSION = 0.02  # of the rows of a class; below it a confusion is no explanation


def reason(report: AuditReport, row: int) -> str:
    """Return the evidence for and against the given label of a row."""
    given, suggested = int(report.given[row]), int(report.suggested[row])
    best = report.classes[suggested]
    if given < 0:
        return f"no label; {best} is most probable ({percent(report.suggested_prob[row])})"
    right = report.label_right_prob[row]
    name = report.classes[given]
    if report.is_label_issue[row]:
        words = [f"{best} is more probable ({percent(report.suggested_prob[row])}) than {name} ({percent(right)})"]
        share = float(report.transition_matrix[suggested, given])
        if share >= USUAL_CONFUSION:
            words.append(f"{percent(share)} of {best} are labeled {name}")
    elif report.margin[row] > 0:
        words = [f"the network says {name} as well ({percent(right)})"]
    else:
        words = [f"the network leans to another class, but not far enough against {name} ({percent(right)})"]
    words += dynamics(report, row, name)
    return "; ".join(words)


def dynamics(report: AuditReport, row: int, name: str) -> list[str]:
    """What the columns of evidence say of the label."""
    words, columns = [], report.evidence
    if "agree" in columns:
        words.append(f"predicted {name} in {percent(columns['agree'][row])} of the epochs")
    if "knn_agree" in columns:
        words.append(f"{percent(columns['knn_agree'][row])} of its neighbors are labeled {name}")
    if "label_used_in_loss" in columns and not columns["label_used_in_loss"][row]:
        words.append("held out: this label was never trained on")
    return words


def percent(share: float) -> str:
    """A share for people: no decimals, but never 0 % or 100 % of what is not.

    >>> percent(0.514), percent(0.001), percent(0.9999), percent(1.0)
    ('51 %', '<1 %', '>99 %', '100 %')
    """
    if 0 < share < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


FEW_ROWS = 10
SHOWN = 5
DEPENDENT = 0.995  # agreement between views above which they are one


def warnings_about(
    transition: Floats, labels: Integers, predicted: Integers, views: Mapping[str, Integers], classes: tuple[str, ...]
) -> list[str]:
    counts = np.bincount(labels[labels >= 0], minlength=len(classes))
    out = swapped(transition, counts, classes)
    if (few := np.flatnonzero(counts < FEW_ROWS)).size:
        names = ", ".join(f"{classes[k]} ({counts[k]})" for k in few[:SHOWN]) + (", …" if few.size > SHOWN else "")
        out.append(f"few labels of: {names}; what is said of these classes is mostly said of all")
    named = {"the prediction": predicted, **{f"the {name} view": view for name, view in views.items()}}
    for (name, one), (other_name, other) in combinations(named.items(), 2):
        if float((one == other).mean()) > DEPENDENT:
            out.append(f"{name} and {other_name} nearly always agree: they are no two opinions")
    return out


def swapped(transition: Floats, counts: Integers, classes: tuple[str, ...]) -> list[str]:
    """Classes whose rows mostly carry another label: noise beyond half, or names exchanged. No method can tell."""
    others = transition * (1 - np.eye(len(transition)))
    worst = others.argmax(axis=1)
    rows = np.arange(len(transition))
    bad = np.flatnonzero((others[rows, worst] > transition[rows, rows]) & (counts > 0))
    shown = [f"{classes[j]} as {classes[worst[j]]} ({100 * others[j, worst[j]]:.0f} %)" for j in bad[:SHOWN]]
    return [f"more often labeled otherwise than right: {', '.join(shown)}; are these classes swapped?"] if shown else []
