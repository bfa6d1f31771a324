"""The most suspect rows for people: a list for a terminal and a small table for a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from pars.audit.export import Content
    from pars.audit.report import AuditReport

WIDTH = 80
LISTED = 10  # rows
MOST = (9, 14, 14, 24)  # columns of row, given, suggested and reason; the rest is for what the row is
GAP = "  "
MOST_TEXT = 200  # characters, in a notebook


def suspect_rows(report: AuditReport, top: int | None = None, content: Content | None = None) -> list[list[str]]:
    """The heading, then the most suspect rows: row, given, suggested, a short reason, and its text, file or name.

    top: number of rows; by default the flagged ones, at most ten. content: texts or files of the rows.
    The reason is the strongest evidence against the label that there is.
    """
    rows = report.suspects[: min(LISTED, int(report.is_label_issue.sum())) if top is None else top].tolist()
    evidence, names = report.evidence, report.classes
    if "knn_agree" in evidence:
        reasons = [f"{100 * evidence['knn_agree'][row]:.0f} % of neighbors agree" for row in rows]
    elif "agree" in evidence:
        reasons = [f"predicted in {100 * evidence['agree'][row]:.0f} % of epochs" for row in rows]
    else:
        reasons = [f"{100 * report.label_right_prob[row]:.0f} % probable" for row in rows]
    what: list[str] = []
    shown: list[list[str]] = [[] for _ in rows]
    if content is not None and content.values is not None:
        what, shown = [content.kind], [[content.values[row]] for row in rows]
    elif content is not None and content.ids is not None and any(content.ids[row] != str(row) for row in rows):
        what, shown = ["id"], [[content.ids[row]] for row in rows]
    return [
        ["row", "given", "suggested", "reason", *what],
        *(
            [str(row), names[report.given[row]], names[report.suggested[row]], reason, *more]
            for row, reason, more in zip(rows, reasons, shown, strict=True)
        ),
    ]


def suspects_text(report: AuditReport, top: int | None = None, content: Content | None = None) -> str:
    """`suspect_rows`, one a line of at most 80 columns.

    >>> import numpy as np
    >>> from pars.audit import Content, score
    >>> report = score(np.array([[0.9, 0.1]] * 30 + [[0.1, 0.9]] * 30), [0] * 30 + [1] * 29 + [0], classes=["a", "b"])
    >>> print(suspects_text(report, content=Content("text", ["one"] * 59 + ["two words"])))
    row  given  suggested  reason        text
     59  a      b          0 % probable  two words
    """
    # One line each, and nothing that would do something to a terminal.
    table = [
        [
            "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(cell.split()))
            for cell in line
        ]
        for line in suspect_rows(report, top, content)
    ]
    widths = [min(most, max(map(cell_len, cells))) for most, *cells in zip(MOST, *table, strict=False)]
    widths.append(WIDTH - sum(widths) - len(widths) * len(GAP))
    at_end = table[0][-1] == "image"  # the end of a path tells it from others
    out = []
    for line in table:
        for column, (cell, width) in enumerate(zip(line, widths, strict=False)):
            if cell_len(cell) > width:
                fits = set_cell_size(cell, width - 1) + "…"
                line[column] = f"…{cell[1 - width :]}" if at_end and column == len(MOST) else fits
            line[column] = line[column].rjust(width) if column == 0 else set_cell_size(line[column], width)
        out.append(GAP.join(line).rstrip())
    return "\n".join(out)


def suspects_html(report: AuditReport, top: int | None = None, content: Content | None = None) -> str:
    """`suspect_rows` as an HTML table for notebooks; all texts are escaped and cut."""
    heading, *lines = suspect_rows(report, top, content)
    head = "".join(f"<th>{escape(name)}</th>" for name in heading)
    cut = [[cell if len(cell) <= MOST_TEXT else f"{cell[: MOST_TEXT - 1]}…" for cell in line] for line in lines]
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in cut)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
