"""From decisions about labels to files: the user's own table corrected, the list of corrections, labels of all rows.

A decision comes from a person (`pars.reviewing`) or from a rule.

corrections.csv, .jsonl   the decided rows
labels.csv                all rows, for `pars fit --labels` (`data.checked_labels_csv`)
corrected.SUFFIX          the user's table with its label column corrected; dropped rows are left out
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pars import data
from pars.data import CHECKED, DROPPED, TRUSTED, UNCHECKED, UNLABELED, CheckedLabels, Labels
from pars.errors import UserError
from pars.files import write_text
from pars.fit_folder import CONTENT, JOB, fit_of
from pars.spreadsheet import csv_lines, escape_cell

Action = Literal["keep", "accept", "relabel", "drop"]
ACTIONS: tuple[Action, ...] = ("keep", "accept", "relabel", "drop")
COLUMNS = ("row", "id", "given", "action", "label", "label_name", "suggested", "quality", "time")


@dataclass(frozen=True)
class Decision:
    """What was decided about the label of a row.

    label: the class number that is right; -1 where the row is dropped. time: ISO 8601, UTC; "" for a rule.
    """

    row: int
    action: Action
    label: int
    time: str = ""


@dataclass(frozen=True, eq=False)
class ReviewedRows:
    """The rows that decisions are about.

    given, suggested: class numbers [n], -1 = unlabeled. quality [n]: probability that the given label is right.
    checked [n]: what earlier reviews said, as in `data.Split`; `given` are then their labels.
    """

    classes: tuple[str, ...]
    given: Labels
    suggested: Labels
    quality: npt.NDArray[np.float64]
    ids: Sequence[str] | None = None
    checked: npt.NDArray[np.int8] | None = None

    def id(self, row: int) -> str:
        return str(row) if self.ids is None else str(self.ids[row])

    def name(self, label: int) -> str:
        return self.classes[label] if label >= 0 else ""


@dataclass(frozen=True)
class TableSource:
    """The user's file or folder, and how it was read: `column` holds the labels, None of a folder of images."""

    path: Path
    column: str | None
    reading: Mapping[str, Any] = field(default_factory=dict)  # further arguments of `data.read_table`

    def read(self) -> data.Table:
        return data.read_table(self.path, label=self.column, **self.reading)


def source_of_fit(folder: Path) -> TableSource | None:
    """The table that a folder of `pars fit` was made from; None where it does not say, as for rows from Python."""
    fit = fit_of(folder)
    if fit is None:
        return None
    try:
        source = json.loads((fit / CONTENT).read_text(encoding="utf-8")).get("source")
        columns = json.loads((fit / JOB).read_text(encoding="utf-8"))["columns"]
        if source is None:
            return None
        return TableSource(Path(source), columns.pop("label", None), columns)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{fit} is damaged ({error!r}): expected a fit with {JOB} and {CONTENT}") from None


def decide_by_rule(rows: ReviewedRows, above: float) -> list[Decision]:
    """Accept the suggestion wherever the given label is wrong with a probability above `above`.

    >>> rows = ReviewedRows(("a", "b"), np.array([0, 1, -1]), np.array([1, 0, 0]), np.array([0.01, 0.2, np.nan]))
    >>> [(decision.row, decision.label) for decision in decide_by_rule(rows, above=0.95)]
    [(0, 1)]
    """
    if not 0 <= above < 1:
        raise UserError(f"above is {above}, expected a probability from 0 up to, not including, 1")
    wrong = (rows.given >= 0) & (1 - rows.quality > above) & (rows.suggested != rows.given)
    return [Decision(int(row), "accept", int(rows.suggested[row])) for row in np.flatnonzero(wrong)]


def records(rows: ReviewedRows, decisions: Iterable[Decision]) -> Iterator[dict[str, Any]]:
    """One dictionary for each decision, with the names of COLUMNS."""
    for decision in decisions:
        row, quality = decision.row, float(rows.quality[decision.row])
        values = (
            row,
            rows.id(row),
            rows.name(int(rows.given[row])),
            decision.action,
            decision.label if decision.label >= 0 else None,
            rows.name(decision.label),
            rows.name(int(rows.suggested[row])),
            None if np.isnan(quality) else round(quality, 6),
            decision.time,
        )
        yield dict(zip(COLUMNS, values, strict=True))


def corrections_csv(rows: ReviewedRows, decisions: Iterable[Decision]) -> Iterator[str]:
    """corrections.csv line by line; texts are escaped for spreadsheets."""
    yield from csv_lines([COLUMNS])
    for record in records(rows, decisions):
        yield from csv_lines([[escape_cell(v) if isinstance(v, str) else v for v in record.values()]])


def corrections_jsonl(rows: ReviewedRows, decisions: Iterable[Decision]) -> Iterator[str]:
    """corrections.jsonl line by line: the same, without loss."""
    for record in records(rows, decisions):
        yield json.dumps(record) + "\n"


def checked_labels(rows: ReviewedRows, decisions: Iterable[Decision], random: Collection[int] = ()) -> CheckedLabels:
    """The labels of all rows after these decisions and earlier ones.

    random: rows that were drawn at random from all, so that an accuracy can be measured on them.
    """
    labels, drawn = rows.given.copy(), frozenset(random)
    checked = np.zeros(len(labels), dtype=np.int8) if rows.checked is None else rows.checked.copy()
    for decision in decisions:
        dropped = decision.action == "drop"
        labels[decision.row] = UNLABELED if dropped else decision.label
        checked[decision.row] = DROPPED if dropped else TRUSTED if decision.row in drawn else CHECKED
    return CheckedLabels(labels, checked)


def read_source(source: TableSource, rows: ReviewedRows) -> data.Table:
    """The user's table, read again; a UserError where its labels are not those that were reviewed."""
    if not source.path.exists():
        raise UserError(f"{source.path} is not there any more; it is needed to write the corrected table")
    table = source.read()
    if len(table) != len(rows.given):
        raise UserError(f"{source.path} has {len(table)} rows, the review {len(rows.given)}: it has changed since")
    mine, reviewed = _names(table.classes, table.labels), _names(rows.classes, rows.given)
    unchecked = np.full(len(table), True) if rows.checked is None else rows.checked == UNCHECKED
    if (different := np.flatnonzero((mine != reviewed) & unchecked)).size:
        row = int(different[0])
        raise UserError(f"{table.row(row)} is labeled {mine[row]!r}, in the review {reviewed[row]!r}: it has changed")
    return table


def write_corrected(
    folder: Path, rows: ReviewedRows, found: CheckedLabels, source: TableSource | None, table: data.Table | None = None
) -> Path:
    """Write the user's table with corrected labels into a folder, and return its path.

    Images of a folder become a table of path and label, rows without a file one of row and label.
    table: the source as it was read, if it was.
    """
    if source is not None and table is None:
        table = read_source(source, rows)
    names = _names(rows.classes, found.labels)
    dropped = np.flatnonzero(found.checked == DROPPED).tolist()
    if source is not None and table is not None and source.column is not None:
        different = found.known & (names != _names(table.classes, table.labels))
        out = folder / f"corrected{source.path.suffix}"
        options = {name: source.reading[name] for name in ("delimiter", "encoding") if name in source.reading}
        changed = {row: str(names[row]) for row in np.flatnonzero(different).tolist()}
        data.write_corrected_table(source.path, out, source.column, changed, dropped, **options)
        return out
    out = folder / "corrected.csv"
    images = None if table is None else table.images
    left_out = frozenset(dropped)
    lines: list[tuple[object, str]] = [("row" if images is None else "path", "label")]
    for row, name in enumerate(names):
        if row not in left_out:
            lines.append((row if images is None else images[row].resolve(), name))
    write_text(out, "".join(csv_lines(lines)))
    return out


def write_corrections(
    folder: Path,
    rows: ReviewedRows,
    decisions: Iterable[Decision],
    source: TableSource | None = None,
    random: Collection[int] = (),
) -> list[Path]:
    """Write all files, each replaced as a whole, and return their paths; the corrected table is last."""
    decided = sorted(decisions, key=lambda decision: decision.row)
    table = None if source is None else read_source(source, rows)
    folder.mkdir(parents=True, exist_ok=True)
    found = checked_labels(rows, decided, random)
    texts = {
        "corrections.csv": "".join(corrections_csv(rows, decided)),
        "corrections.jsonl": "".join(corrections_jsonl(rows, decided)),
        "labels.csv": labels_csv(rows, found, table),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [*(folder / name for name in texts), write_corrected(folder, rows, found, source, table)]


def labels_csv(rows: ReviewedRows, found: CheckedLabels, table: data.Table | None = None) -> str:
    """The text of labels.csv, with the class numbers of the table where there is one: a fit may have fewer classes."""
    classes = rows.classes
    if table is not None:
        classes = (*table.classes, *(name for name in rows.classes if name not in table.classes))
        number = np.array([*(classes.index(name) for name in rows.classes), UNLABELED])
        found = replace(found, labels=number[found.labels])
    return data.checked_labels_csv(found, classes, rows.ids)


def _names(classes: Sequence[str], labels: Labels) -> npt.NDArray[np.object_]:
    return np.array([*classes, ""], dtype=object)[labels]
