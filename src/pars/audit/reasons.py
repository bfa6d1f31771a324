"""The evidence on a row in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
