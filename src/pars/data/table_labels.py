"""A table's labels: texts or numbers to classes, a sign for unlabeled rows, and the first bad one by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pars.data.class_numbers import check_class_count
from pars.data.columns import Columns, as_text, is_missing, shown
from pars.data.dataset import UNLABELED, Labels
from pars.errors import UserError

Names = list[str | None]  # None: unlabeled


def label_names(columns: Columns, column: str, unlabeled: str | None) -> Names:
    """The label of each row as text. `unlabeled` is the sign for rows that have none; "" stands for missing ones."""
    names: Names = []
    for row, value in enumerate(columns[column]):
        if isinstance(value, list | dict):
            raise UserError(f"{columns.where(row, column)} holds a {type(value).__name__}, expected one label")
        name = "" if is_missing(value) else as_text(value)
        if name == unlabeled:
            names.append(None)
        elif not name:
            raise UserError(
                f"{columns.where(row, column)} is empty, expected a label; where rows without one are meant, say so "
                'with unlabeled="" (pars fit and encode: --unlabeled "")'
            )
        else:
            names.append(name)
    return names


def classes_of(names: Sequence[str | None], where: str) -> tuple[str, ...]:
    """The classes in order: by number where all are whole numbers, else by name.

    >>> classes_of(["10", "9", None, "9"], "pets.csv"), classes_of(["b", "10", "a"], "pets.csv")
    (('9', '10'), ('10', 'a', 'b'))
    """
    found = {name for name in names if name is not None}
    if len(found) > 100:  # cheap to see, and worth saying before anything else
        check_class_count(len(found), len(names), where)
    return tuple(sorted(found, key=int) if all(map(_is_whole, found)) else sorted(found))


def _is_whole(name: str) -> bool:
    digits = name.removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and len(digits) < 19


def label_numbers(names: Names, classes: tuple[str, ...], columns: Columns, column: str) -> Labels:
    """One class number per row, -1 where there is no label; a UserError for a label that is no class."""
    number: dict[str | None, int] = {name: at for at, name in enumerate(classes)} | {None: UNLABELED}
    for row, name in enumerate(names):
        if name not in number:
            raise UserError(f"{columns.where(row, column)} is {name!r}, expected one of {shown(classes)}")
    return np.array([number[name] for name in names], dtype=np.int64)
