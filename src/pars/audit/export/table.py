"""One line per row of the data. The names of cleanlab's Datalab stand beside ours, so that its users' code goes on."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from pars.audit.check import Array
from pars.audit.export.content import Content
from pars.audit.report import AuditReport
from pars.errors import UserError
from pars.files import write_atomically

EVIDENCE = ("margin_avg", "margin_early", "p_mean", "p_std", "agree", "forget", "first_agree", "knn_agree")


def columns(report: AuditReport, content: Content | None = None) -> dict[str, Array]:
    """The table by columns [n]; evidence that an audit does not have is left out. Texts or pictures come last.

    `is_label_issue`, `label_score`, `given_label` and `predicted_label` are Datalab's names.
    """
    content = content or Content()
    names = np.array([*report.classes, ""], dtype=object)  # -1 picks the empty name
    evidence = {name: report.evidence[name] for name in (*EVIDENCE, "label_used_in_loss") if name in report.evidence}
    return {
        "index": np.arange(len(report)),
        "id": np.array([content.id(row) for row in range(len(report))], dtype=object),
        "given_label": names[report.given],
        "label_right_prob": report.label_right_prob,
        "suggested_label": names[report.suggested],
        "suggested_prob": report.suggested_prob,
        "rank": report.rank,
        "is_label_issue": report.is_label_issue,
        "label_score": report.label_right_prob,
        "predicted_label": names[report.predicted],
        "margin": report.margin,
        **evidence,
        "why": report.why,
        **({} if content.values is None else {content.kind: np.array(list(content.values), dtype=object)}),
    }


def as_csv(report: AuditReport, content: Content | None = None) -> str:
    """The table as CSV; what is not known is empty."""
    table = columns(report, content)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(map(cell, values.tolist()) for values in table.values()), strict=True))
    return text.getvalue()


def cell(value: Any) -> str:
    """A value as a spreadsheet reads it.

    >>> [cell(value) for value in (0.123456789, float("nan"), True, "a", 3)]
    ['0.123457', '', 'True', 'a', '3']
    """
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.6g}"
    return str(value)


def write_parquet(report: AuditReport, path: Path, content: Content | None = None) -> None:
    """The table as Parquet, whole or not at all; needs pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError("Parquet needs pyarrow: pip install 'pars-lnl[parquet]', or choose csv") from None
    table = pyarrow.table({name: pyarrow.array(v.tolist()) for name, v in columns(report, content).items()})
    write_atomically(path, lambda beside: parquet.write_table(table, str(beside)))
