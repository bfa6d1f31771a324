"""A user's own data behind one door: files, folders and frames become a `Table`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pars.data.arrays import array_table
from pars.data.class_labels import check_class_count, classes_of, label_names, label_numbers
from pars.data.columns import (
    Columns,
    as_text,
    column_texts,
    frame_columns,
    is_frame,
    read_delimited,
    read_json_lines,
    read_parquet,
)
from pars.data.dataset import UNLABELED, Inputs, Labels
from pars.data.images import image_folder, listed, unreadable
from pars.data.pack import is_pack
from pars.errors import UserError
from pars.files import expanded
from pars.missing import is_missing

log = logging.getLogger(__name__)

DELIMITED, JSON, PARQUET = (".csv", ".tsv", ".tab", ".txt"), (".jsonl", ".ndjson", ".json"), (".parquet", ".pq")
TABLES, ARRAYS = (*DELIMITED, *JSON, *PARQUET), (".npz", ".npy")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of one kind with their labels. Exactly one of `texts`, `images`, `columns` and `array` is there.

    labels: class numbers [n], -1 = unlabeled (all of them where no label column was named).
    ids: what a person calls each row; its number where no column says.
    images: files to be opened. columns: for a `ColumnEncoder`. array: images [n, C, H, W] or features [n, d].
    cached: views of the rows of `array` encoded beforehand, as in `Split`.
    categorical: of `columns`, those whose values are categories even if they look like numbers.
    test: rows to test on that were in the same file.
    checked: which labels people have checked [n], as in `Split`.
    """

    source: str
    labels: Labels
    classes: tuple[str, ...]
    ids: tuple[str, ...]
    true_labels: Labels | None = None
    texts: list[str] | None = None
    images: list[Path] | None = None
    columns: Columns | None = None
    array: Inputs | None = None
    cached: npt.NDArray[np.float32] | None = None
    lines: Sequence[int] | None = None
    categorical: tuple[str, ...] = ()
    test: Table | None = None
    checked: npt.NDArray[np.int8] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def kind(self) -> Literal["text", "image", "columns", "array"]:
        if self.texts is not None:
            return "text"
        if self.images is not None:
            return "image"
        return "array" if self.columns is None else "columns"

    def first(self, n: int) -> Table:
        """The first n rows, of the same classes."""
        rows = ("labels", "ids", "true_labels", "texts", "images", "array", "cached", "lines", "checked")
        cut: dict[str, Any] = {name: None if getattr(self, name) is None else getattr(self, name)[:n] for name in rows}
        if self.columns is not None:
            kept = {name: values[:n] for name, values in self.columns.items()}
            cut["columns"] = Columns(self.source, kept, cut["lines"])
        return replace(self, **cut)

    def row(self, row: int) -> str:
        """A row's place, for messages."""
        line = "" if self.lines is None else f" (line {self.lines[row]})"
        return f"{self.source}: row {row}{line}"


def read_table(
    source: Any,
    *,
    label: str | None = None,
    text: str | None = None,
    image: str | None = None,
    features: str | Sequence[str] | None = None,
    id: str | None = None,
    true: str | None = None,
    unlabeled: str | None = None,
    classes: tuple[str, ...] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    categorical: str | Sequence[str] | None = None,
    skip_unreadable: bool | None = None,
    check_files: bool = True,
) -> Table:
    """The rows of a CSV, TSV, JSONL or Parquet file, a frame, a folder class/name.jpg, an .npz file or .npy folder.

    label: column of the given labels; of a folder, an .npz file or rows to predict on it is left away.
    text, image, features: the one column of texts, the one of image files (paths are relative to the table's folder),
    or those of numbers and categories; without any, all other columns are features.
    id: column that names the rows. true: column of the right labels, where known.
    unlabeled: label that means "none"; "" stands for missing ones, which are refused otherwise.
    classes: those of a classifier, so that labels get its numbers.
    categorical: of the features, columns of codes that look like numbers.
    skip_unreadable: leave out rows whose image cannot be read, with a warning that counts them.
    check_files: of a column of image files, refuse one that is not there.

    >>> pets = {"says": ["miaow", "woof", "purr"], "who": ["cat", "dog", "?"]}
    >>> table = read_table(pets, label="who", text="says", unlabeled="?")
    >>> table.kind, table.classes, table.labels.tolist()
    ('text', ('cat', 'dog'), [0, 1, -1])
    """
    if len([way for way in (text, image, features) if way is not None]) > 1:
        raise UserError("expected one of text, image and features: rows are one kind of thing")
    if is_frame(source):
        columns, folder = frame_columns(source), Path()
    else:
        path = expanded(str(source))
        if not path.exists():
            raise UserError(f"{path} does not exist, expected a table, a folder of images or an .npz file")
        if not has_columns(path):
            named = {"label": label, "text": text, "image": image, "features": features, "id": id, "true": true}
            for name, given in (named | {"categorical": categorical or None}).items():
                if given is not None:
                    raise UserError(f"{path} has no columns, so {name} = {given!r} means nothing there")
            found = _without_columns(path, unlabeled, classes)
            return _without_unreadable(found) if skip_unreadable and found.images is not None else found
        columns, folder = read_columns(path, delimiter=delimiter, encoding=encoding), path.parent
    names = None if label is None else label_names(columns, label, unlabeled)
    right = None if true is None else label_names(columns, true, unlabeled)
    if true is not None and true == label:
        raise UserError(f"{columns.source}: {true!r} has the given labels and the right ones; expected two columns")
    if classes is None:
        for column, values in ((label, names or []), (true, right or [])):
            if (count := len(set(values) - {None})) > 100:  # identifiers? worth saying before anything else
                check_class_count(count, len(values), f"{columns.source}, column {column!r}")
        if unlabeled and names is not None and None not in names and None not in (right or ()):
            log.warning("%s: no label is %r, so every row counts as labeled", columns.source, unlabeled)
        classes = classes_of([*(names or []), *(right or [])], columns.source)
    labels = np.full(columns.n_rows, UNLABELED, dtype=np.int64)
    if names is not None and label is not None:
        labels = label_numbers(names, classes, columns, label)
    true_labels = None if right is None or true is None else label_numbers(right, classes, columns, true)
    wanted = [features] if isinstance(features, str) else features
    codes = (categorical,) if isinstance(categorical, str) else tuple(categorical or ())
    if (content := text or image) is not None and content in (label, true, id):
        raise UserError(f"{columns.source}: {content!r} is to be learned from and a label or identifier; expected one")
    table = Table(
        columns.source,
        labels,
        classes,
        tuple(map(str, range(columns.n_rows))) if id is None else _ids(columns, id),
        true_labels,
        texts=None if text is None else _texts(columns, text),
        images=None
        if image is None
        else _images(columns, image, folder, must_exist=check_files and not skip_unreadable),
        columns=columns.only(_features(columns, wanted, (label, true, id))) if text is None and image is None else None,
        lines=columns.lines,
        categorical=codes,
    )
    for name in codes:
        if table.columns is None or name not in table.columns:
            raise UserError(f"{columns.source}: categorical names {name!r}, which is not a column to learn from")
    return _without_unreadable(table) if skip_unreadable and table.images is not None else table


def _without_unreadable(table: Table) -> Table:
    """The table without rows whose image cannot be read. A class that loses all of them is an error later."""
    assert table.images is not None
    bad = unreadable(table.images)
    if not bad:
        return table
    if len(bad) == len(table):
        raise UserError(f"{table.source}: none of its {len(table)} images can be read; the first: {bad[0]}")
    log.warning("%s: %d of %d images cannot be read and are left out: %s",
                table.source, len(bad), len(table), listed(bad, table.row))  # fmt: skip
    rows = [row for row in range(len(table)) if row not in bad]
    return replace(
        table,
        labels=table.labels[rows],
        ids=tuple(table.ids[row] for row in rows),
        true_labels=None if table.true_labels is None else table.true_labels[rows],
        images=[table.images[row] for row in rows],
        lines=None if table.lines is None else [table.lines[row] for row in rows],
    )


def has_columns(path: Path) -> bool:
    """Whether a path is that of a table; folders and arrays have none."""
    return not path.is_dir() and path.suffix.lower() not in ARRAYS


def read_columns(path: Path, *, delimiter: str | None = None, encoding: str | None = None) -> Columns:
    """All columns of a table file, by its suffix."""
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        return read_parquet(path)
    if suffix in JSON:
        return read_json_lines(path, encoding=encoding)
    if suffix in DELIMITED:
        return read_delimited(path, delimiter=delimiter, encoding=encoding)
    raise UserError(
        f"{path}: cannot read {suffix or 'a file without suffix'}, expected one of "
        f"{', '.join((*TABLES, *ARRAYS))} or a folder of images"
    )


def _without_columns(path: Path, unlabeled: str | None, classes: tuple[str, ...] | None) -> Table:
    if is_pack(path):
        raise UserError(f"{path} is a pack, which `pars train` reads; expected the images it was made of")
    if path.is_file() or any(path.glob("*.npy")):
        if unlabeled:
            raise UserError(
                f"unlabeled = {unlabeled!r} is for tables and folders of images; {path} marks such rows with the label "
                '-1 or ""'
            )
        split, rest, names = array_table(path, classes)
        ids = tuple(map(str, range(len(split))))
        test = None
        if rest is not None:
            test = Table(f"{path} (test)", rest.labels, names, tuple(map(str, range(len(rest)))), array=rest.inputs)
        return Table(
            str(path), split.labels, names, ids, split.true_labels, array=split.inputs, cached=split.cached, test=test
        )
    files, folders = image_folder(path)
    given = [None if name == unlabeled else name for name in folders]
    places = tuple(file.relative_to(path).as_posix() for file in files)
    found = classes_of(given, str(path)) if classes is None else classes
    labels = label_numbers(given, found, Columns(str(path), {"folder": folders}), "folder")
    return Table(str(path), labels, found, places, images=files)


def _ids(columns: Columns, column: str) -> tuple[str, ...]:
    first: dict[str, int] = {}
    for row, value in enumerate(columns[column]):
        name = "" if is_missing(value) else as_text(value)
        if not name:
            raise UserError(f"{columns.where(row, column)} is empty, expected an identifier")
        if name in first:
            raise UserError(
                f"{columns.where(row, column)} is {name!r}, as is row {first[name]}; expected every identifier once"
            )
        first[name] = row
    return tuple(first)


def _texts(columns: Columns, column: str) -> list[str]:
    texts = column_texts(columns, column)
    empty = [row for row, text in enumerate(texts) if not text.strip()]
    if len(empty) == len(texts):
        raise UserError(f"{columns.source}: column {column!r} is empty in every row, expected texts")
    if empty:
        log.warning("%s is empty, as are %d rows in all: nothing can be learned from them",
                    columns.where(empty[0], column), len(empty))  # fmt: skip
    return texts


def _images(columns: Columns, column: str, folder: Path, *, must_exist: bool) -> list[Path]:
    files = []
    for row, value in enumerate(columns[column]):
        if not isinstance(value, str) or is_missing(value):
            raise UserError(f"{columns.where(row, column)} is {value!r}, expected the path of an image")
        files.append(folder / value.strip())
    gone = [row for row, file in enumerate(files) if not file.is_file()] if must_exist else []
    if gone:
        more = f" ({len(gone)} such rows in all: --skip-unreadable leaves them out)" if len(gone) > 1 else ""
        raise UserError(f"{columns.where(gone[0], column)}: there is no file {files[gone[0]]}{more}")
    return files


def _features(columns: Columns, wanted: Sequence[str] | None, others: tuple[str | None, ...]) -> list[str]:
    """Columns to learn from: those asked for, else all that are not labels, identifiers or row numbers."""
    if wanted is not None:
        for name in wanted:
            columns[name]
        if twice := [name for name in wanted if list(wanted).count(name) > 1]:
            raise UserError(f"{columns.source}: features name {twice[0]!r} twice, expected every column once")
        if both := [name for name in wanted if name in others]:
            raise UserError(
                f"{columns.source}: {both[0]!r} is a feature and a label or identifier; expected one of them"
            )
        return list(wanted)
    left: list[str] = []
    numbered: list[str] = []
    for name, column in columns.items():
        if name not in others:
            # 0, 1, 2, … or 1, 2, 3, …: row numbers, as pandas writes them, say nothing about a class.
            values = [as_text(value) for value in column]
            from_0, from_1 = (list(map(str, range(start, start + len(values)))) for start in (0, 1))
            (numbered if len(values) > 1 and values in (from_0, from_1) else left).append(name)
    if not left:
        because = [f"{name!r} has labels or identifiers" for name in others if name is not None]
        because += [f"{name!r} numbers the rows" for name in numbered]
        raise UserError(
            f"{columns.source}: no column is left to learn from: {', '.join(because)}; expected features besides, or "
            "their names (pars fit: --features)"
        )
    return left
