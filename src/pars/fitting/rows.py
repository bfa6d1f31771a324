"""Whatever a user calls rows (a file, a folder, a frame, texts, images, arrays), with labels, as one `Table`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pars import data
from pars.data import Columns, Labels, Table
from pars.errors import UserError
from pars.files import expanded

SOURCE = "rows"  # what messages call rows that have no file


def read_rows(
    rows: Any,
    labels: Any = None,
    *,
    encoder: Any = None,
    unlabeled: str | None = None,
    classes: tuple[str, ...] | None = None,
    **columns: Any,
) -> Table:
    """The rows and their labels, checked. At least two classes need a label, unless `classes` are given.

    rows: a table file, a folder CLASS/name.jpg or an .npz file by path; a frame or a dict of columns; a list, array or
        series of texts or of paths of images; numbers [n, d]; images uint8 [n, h, w], [n, h, w, c] or [n, c, h, w].
    labels: the name of a column, or one label per row. Folders and .npz files bring their own.
    unlabeled: the label that marks rows without one; "" stands for missing values.
    classes: those of a classifier, so that labels get its numbers.
    columns: further arguments of `data.read_table`: text, image, features, id, true, delimiter, encoding.

    >>> table = read_rows(["miaow", "woof", "purr"], ["cat", "dog", "cat"])
    >>> table.kind, table.classes, table.labels.tolist()
    ('text', ('cat', 'dog'), [0, 1, 0])
    """
    is_path = isinstance(rows, str) or hasattr(rows, "__fspath__")
    if is_path or data.is_frame(rows):
        column = labels if isinstance(labels, str) else None
        table = data.read_table(rows, label=column, unlabeled=unlabeled, classes=classes, **columns)
    else:
        column = None
        if given := [name for name, value in columns.items() if value is not None]:
            raise UserError(f"{SOURCE} have no columns, so {given[0]} = {columns[given[0]]!r} means nothing")
        table = unlabeled_rows(rows, encoder)
    if labels is not None and column is None:
        table = _with_labels(table, labels, unlabeled, classes)
    where = f"{table.source}, column {column!r}" if column else table.source
    given_classes: Labels = np.unique(table.labels[table.labels >= 0])
    if not len(given_classes):
        expected = "some" if column else "labels: a column's name, or one label per row (pars fit: --label COLUMN)"
        if not column and table.columns is not None:
            expected += f"; its columns are {', '.join(list(table.columns)[:10])}"
        raise UserError(f"{where} has no labels, expected {expected}")
    if classes is None and 2 < len(given_classes) == int((table.labels >= 0).sum()):
        raise UserError(
            f"{where}: each of its {len(given_classes)} labels occurs once, expected classes that several rows share; "
            "is this a column of identifiers or of texts?"
        )
    if len(given_classes) < 2 and classes is None:
        only = table.classes[given_classes[0]]
        raise UserError(f"{where} has labels of one class, {only!r}, expected at least two classes")
    return table


def read_test_rows(rows: Any, labels: Any, table: Table, **options: Any) -> Table:
    """Further rows with right labels, read as those of `table` were: the same classes and columns."""
    is_path = isinstance(rows, str) or hasattr(rows, "__fspath__")
    if is_path and _is_same_file(expanded(str(rows)), Path(table.source)):
        raise UserError(f"{rows} is what is trained on: its accuracy would say nothing; expected other rows")
    if labels is None and not is_path and not data.is_frame(rows):
        raise UserError("the test rows have no labels, expected test_labels: one label per row")
    if table.columns is not None and (is_path or data.is_frame(rows)):
        options["features"] = list(table.columns)  # by name: a column of few rows may look like row numbers
    return read_rows(rows, labels, classes=table.classes, **options)


def _is_same_file(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)


def unlabeled_rows(rows: Any, encoder: Any = None) -> Table:
    """Texts, images or arrays as a table without labels."""
    entries = data.entries(rows, SOURCE)
    if entries is not None:
        return data.entry_table(entries, data.kind_of_entries(entries, encoder, SOURCE), SOURCE)
    array = rows.detach().cpu().numpy() if isinstance(rows, torch.Tensor) else np.asarray(rows)
    if not array.ndim:
        kind = type(rows).__name__
        raise UserError(
            f"{SOURCE}: of type {kind}, expected a path, a frame, an array or a list; of an iterator make a list"
        )
    return data.table_of(SOURCE, len(array), array=np.ascontiguousarray(data.to_inputs(array, SOURCE)))


def _with_labels(table: Table, labels: Any, unlabeled: str | None, classes: tuple[str, ...] | None) -> Table:
    values = labels.detach().cpu().numpy() if isinstance(labels, torch.Tensor) else labels
    if not hasattr(values, "__iter__") or getattr(values, "ndim", 1) == 0:
        raise UserError(f"labels is {values!r}, expected a column's name, or one label per row")
    given: Sequence[Any] = values.tolist() if hasattr(values, "tolist") else list(values)
    if len(given) != len(table):
        raise UserError(f"{len(given)} labels for {len(table)} rows, expected one each")
    numbers, found = data.label_column(Columns("labels", {"labels": given}), "labels", unlabeled, classes)
    return replace(table, labels=numbers, classes=found)
