"""Labels as people write them, numbers or names in arrays and tables, and the class numbers they become."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pars.data.columns import Columns, as_text, shown
from pars.data.dataset import UNLABELED, Labels
from pars.errors import UserError
from pars.missing import NO_VALUE, is_missing

log = logging.getLogger(__name__)

Array = npt.NDArray[np.generic]
NO_LABEL = ("", "-1")  # -1 in a column of names is written as text
MOST_CLASSES = 10_000  # beyond, K × K tables do not fit; labels are row numbers or identifiers by mistake


def class_names(labels: Sequence[Array], given: Array | None, where: str) -> tuple[str, ...]:
    """The names of the classes: as given, else the sorted names among the labels, else "0", "1", ….

    >>> class_names([np.array(["dog", "cat", ""]), np.array(["eel"])], None, "mine.npz")
    ('cat', 'dog', 'eel')
    >>> class_names([np.array([2, 0, -1])], None, "mine.npz")
    ('0', '1', '2')
    """
    if given is not None:
        names = tuple(str(name) for name in _as_text(given).ravel())
        check_class_names(names, where)
        return names
    are_text = {array.dtype.kind in "US" for array in labels}
    if len(are_text) > 1:
        raise UserError(f"{where}: some labels are names and some are numbers, expected one kind")
    rows = len(labels[0])
    if are_text == {True}:
        found = sorted({str(name) for array in labels for name in np.unique(_as_text(array))} - set(NO_LABEL))
        check_class_count(len(found), rows, where)
        warn_of_strange_names(found, where)
        return tuple(found)
    numbers = [whole_numbers(array, f"{where}: labels") for array in labels]
    top = max(int(array.max(initial=UNLABELED)) for array in numbers)
    if top < 0 and (numbers[0] < UNLABELED).any():
        raise UserError(
            f"{where}: labels: no row has a class number (row 0 is {numbers[0][0]}), expected 0, 1, 2, …; -1 marks "
            "rows without a label"
        )
    check_class_count(top + 1, rows, where)
    return tuple(str(c) for c in range(top + 1))


def warn_of_strange_names(names: Sequence[str], where: str) -> None:
    """Warn of classes that may be one, such as "cat" and "Cat", and of one that may mean "no label", such as "NA"."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(" ".join(name.casefold().split()), []).append(name)
    for same in alike.values():
        if len(same) > 1:
            log.warning("%s: the classes %s differ only in case or spaces: are they one?", where, shown(same))
    for name in names:
        if name.lower() in NO_VALUE:
            log.warning("%s: %r counts as a class; if it means that the label is missing: unlabeled=%r "
                        "(on the command line --unlabeled %s)", where, name, name, name)  # fmt: skip


def check_class_names(names: tuple[str, ...], where: str) -> None:
    """Raise a UserError where a name occurs twice, or marks rows without a label."""
    if len(set(names)) != len(names):
        raise UserError(f"{where}: classes: {len(names)} names, {len(set(names))} of them different")
    for number, name in enumerate(names):
        if name in NO_LABEL:
            raise UserError(f"{where}: classes: name {number} is {name!r}, which marks rows without a label")


def check_class_count(n_classes: int, rows: int, where: str) -> None:
    """Raise a UserError where there are so many classes that the labels must be something else."""
    if n_classes > MOST_CLASSES or n_classes > max(100, rows / 2):
        raise UserError(
            f"{where}: labels of {n_classes} classes for {rows} rows, expected at most {MOST_CLASSES} classes and two "
            "rows of each; row numbers or identifiers instead of classes?"
        )


def class_numbers(labels: Array, classes: tuple[str, ...], where: str) -> Labels:
    """One class number per row; -1 for "", "-1" and -1.

    >>> class_numbers(np.array(["dog", "", "cat"]), ("cat", "dog"), "mine.npz")
    array([ 1, -1, 0])
    """
    if labels.dtype.kind not in "US":
        return whole_numbers(labels, where)
    number = {name: c for c, name in enumerate(classes)} | dict.fromkeys(NO_LABEL, UNLABELED)
    names, positions = np.unique(_as_text(labels), return_inverse=True)
    unknown = [str(name) for name in names if str(name) not in number]
    if unknown:
        row = int(np.flatnonzero(_as_text(labels) == unknown[0])[0])
        raise UserError(f"{where}: row {row} is {shown(unknown[:1])}, expected one of {', '.join(classes[:10])}")
    return np.array([number[str(name)] for name in names], dtype=np.int64)[positions]


def whole_numbers(labels: Array, where: str) -> Labels:
    """Labels as int64 [n]; floating-point ones only where they are whole."""
    if labels.ndim != 1:
        raise UserError(f"{where}: shape {list(labels.shape)}, expected one label per row, [n]; one-hot rows? (argmax)")
    if labels.dtype.kind not in "biuf":
        raise UserError(f"{where}: dtype {labels.dtype}, expected class numbers or names")
    if labels.dtype.kind == "f":
        values = labels.astype(np.float64)
        bad = np.flatnonzero(~((values == np.round(values)) & (np.abs(values) < 2.0**63)))  # infinite or NaN, too
        if bad.size:
            raise UserError(
                f"{where}: row {bad[0]} is {values[bad[0]]}, expected a class number; -1 for unlabeled rows"
            )
    if labels.dtype.kind == "u" and labels.size and int(labels.max()) > np.iinfo(np.int64).max:
        raise UserError(f"{where}: a label is {labels.max()}, expected a class number")
    return np.array(labels, dtype=np.int64)  # a copy, and not a memory map


def _as_text(array: Array) -> npt.NDArray[np.str_]:
    if array.dtype.kind == "S":
        return np.char.decode(array.astype(np.bytes_), "utf-8", "replace")
    return array.astype(np.str_)


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
    warn_of_strange_names(sorted(found), where)
    are_numbers = all(re.fullmatch(r"[-+]?[0-9]{1,18}", name) for name in found)
    return tuple(sorted(found, key=int) if are_numbers else sorted(found))


def label_numbers(names: Names, classes: tuple[str, ...], columns: Columns, column: str) -> Labels:
    """One class number per row, -1 where there is no label; a UserError for a label that is no class."""
    number: dict[str | None, int] = {name: at for at, name in enumerate(classes)} | {None: UNLABELED}
    for row, name in enumerate(names):
        if name not in number:
            raise UserError(f"{columns.where(row, column)} is {shown([str(name)])}, expected one of {shown(classes)}")
    return np.array([number[name] for name in names], dtype=np.int64)


def label_column(
    columns: Columns, column: str, unlabeled: str | None = None, classes: tuple[str, ...] | None = None
) -> tuple[Labels, tuple[str, ...]]:
    """Class numbers [n] of a column, -1 = unlabeled, and the classes: those given, else all that occur.

    >>> label_column(Columns("pets.csv", {"who": ["dog", "?", "cat"]}), "who", unlabeled="?")
    (array([ 1, -1, 0]), ('cat', 'dog'))
    """
    names = label_names(columns, column, unlabeled)
    found = classes_of(names, columns.source) if classes is None else classes
    return label_numbers(names, found, columns, column), found
