"""Labels that people have checked: the file labels.csv of a review, written and read back.

    row,id,label,label_name,source,sample
    0,0,2,cat,given,
    1,1,0,bird,human,random
    2,2,,,dropped,

`label` is the class number, and is what is read; `label_name` is for people. `source` is "given" (nobody looked),
"human" (a person chose the label or kept it) or "dropped" (no class fits). `sample` is "random" for rows drawn
at random from all rows: they are not trained on and serve as trusted test rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.data.columns import Columns, read_delimited, shown
from pars.data.dataset import CHECKED, DROPPED, TRUSTED, UNCHECKED, UNLABELED, Labels
from pars.data.table import Table
from pars.errors import UserError
from pars.spreadsheet import csv_lines, escape_cell

HEADER = ("row", "id", "label", "label_name", "source", "sample")
GIVEN, HUMAN, LEFT_OUT, RANDOM = "given", "human", "dropped", "random"
FEWEST_TRUSTED = 20  # random rows; fewer say too little about an accuracy to keep them from training


@dataclass(frozen=True, eq=False)
class CheckedLabels:
    """Labels [n], -1 = none, and for each row UNCHECKED, CHECKED, TRUSTED or DROPPED [n]."""

    labels: Labels
    checked: npt.NDArray[np.int8]

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Rows whose label a person has chosen or confirmed."""
        mask: npt.NDArray[np.bool_] = (self.checked == CHECKED) | (self.checked == TRUSTED)
        return mask

    def true_labels(self, before: Labels | None) -> Labels:
        """The checked labels, and those that were known before; -1 elsewhere."""
        mine = np.where(self.known, self.labels, UNLABELED)
        return mine if before is None else np.where(before >= 0, before, mine)


def checked_labels_csv(found: CheckedLabels, classes: Sequence[str], ids: Sequence[str] | None = None) -> str:
    """The text of labels.csv.

    >>> found = CheckedLabels(np.array([1, 0, -1]), np.array([UNCHECKED, CHECKED, DROPPED], dtype=np.int8))
    >>> print(checked_labels_csv(found, ["=1+1", "dog"]), end="")
    row,id,label,label_name,source,sample
    0,0,1,dog,given,
    1,1,0,'=1+1,human,
    2,2,,,dropped,
    """
    sources = {UNCHECKED: GIVEN, CHECKED: HUMAN, TRUSTED: HUMAN, DROPPED: LEFT_OUT}
    lines: list[tuple[object, ...]] = [HEADER]
    for row, (label, state) in enumerate(zip(found.labels.tolist(), found.checked.tolist(), strict=True)):
        named = (label, escape_cell(classes[label])) if label >= 0 else ("", "")
        name = str(row) if ids is None else escape_cell(ids[row])
        lines.append((row, name, *named, sources[state], RANDOM if state == TRUSTED else ""))
    return "".join(csv_lines(lines))


def read_checked_labels(path: Path, given: Labels, classes: Sequence[str]) -> CheckedLabels:
    """Read a labels.csv for rows with these given labels; rows that it does not name keep theirs.

    A UserError names the first row that belongs to other data: unchecked rows must have their given label there.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist, expected the labels.csv of a review")
    columns = read_delimited(path, delimiter=",")
    if missing := [name for name in ("row", "label", "source") if name not in columns]:
        raise UserError(f"{path} has no column {missing[0]!r}: expected the labels.csv of a review")
    labels, checked = given.copy(), np.full(len(given), UNCHECKED, dtype=np.int8)
    seen = np.zeros(len(given), dtype=bool)
    samples = columns["sample"] if "sample" in columns else [""] * columns.n_rows
    names = columns.get("label_name")
    for line in range(columns.n_rows):
        row = _number(columns, line, "row", len(given) - 1)
        if seen[row]:
            raise UserError(f"{columns.where(line, 'row')} is {row} for the second time, expected every row once")
        seen[row] = True
        source = str(columns["source"][line]).strip()
        if source not in (GIVEN, HUMAN, LEFT_OUT):
            raise UserError(f"{columns.where(line, 'source')} is {source!r}, expected given, human or dropped")
        if source == LEFT_OUT:
            labels[row], checked[row] = UNLABELED, DROPPED
            continue
        blank = not str(columns["label"][line]).strip()
        label = UNLABELED if blank and source == GIVEN else _number(columns, line, "label", len(classes) - 1)
        if names is not None and label >= 0 and str(names[line]) != escape_cell(classes[label]):
            raise UserError(
                f"{columns.where(line, 'label_name')} is {names[line]!r}, but class {label} of the data is "
                f"{classes[label]!r}; labels of another table? Its classes are {shown(classes)}"
            )
        if source == GIVEN and label != given[row]:
            raise UserError(
                f"{columns.where(line, 'label')} is {label} as given, but the data has {given[row]} there; "
                "labels of another table, or has it changed since the review?"
            )
        if source == HUMAN:
            labels[row] = label
            checked[row] = TRUSTED if str(samples[line]).strip() == RANDOM else CHECKED
    if (checked == TRUSTED).sum() < FEWEST_TRUSTED:
        checked[checked == TRUSTED] = CHECKED
    return CheckedLabels(labels, checked)


def _number(columns: Columns, line: int, column: str, most: int) -> int:
    text = str(columns[column][line]).strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) <= most):
        raise UserError(f"{columns.where(line, column)} is {text!r}, expected a number from 0 to {most}")
    return int(text)


def with_checked_labels(table: Table, path: Any) -> Table:
    """The table with the labels of a labels.csv; dropped rows stay in their place and are not trained on.

    Classes that no row has any more are left out.
    """
    found = read_checked_labels(Path(path), table.labels, table.classes)
    true = found.true_labels(table.true_labels)
    here = np.unique(np.concatenate([labels[labels >= 0] for labels in (found.labels, true)]))
    number = np.full(len(table.classes) + 1, UNLABELED, dtype=np.int64)  # the last one: -1 stays -1
    number[here] = np.arange(len(here))
    return replace(
        table,
        labels=number[found.labels],
        true_labels=number[true],
        classes=tuple(table.classes[k] for k in here),
        checked=found.checked,
    )
