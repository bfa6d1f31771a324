"""X as texts or picture files: told apart, checked entry by entry, and made a table that `pars.encode` reads."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pars.data import IMAGE_SUFFIXES, UNLABELED, Table
from pars.encode import Kind
from pars.errors import UserError
from pars.estimator.labels import is_missing

log = logging.getLogger(__name__)

OF_TEXTS = ("tfidf", "minilm")  # encoders that say what the rows are, should they look like names of pictures


def entries_of(X: Any) -> Sequence[Any] | None:
    """What a one-dimensional X of texts or paths holds, None where it is anything else.

    >>> entries_of(["a text", None]), entries_of(np.array(["a", "b"])), entries_of([[1.0], [2.0]])
    (['a text', None], ['a', 'b'], None)
    """
    if isinstance(X, str | os.PathLike):
        raise UserError(f"X is one text, {str(X)[:40]!r}, expected a list of them")
    if isinstance(X, list | tuple):
        entries: Sequence[Any] = X
    elif isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "OUT":
        entries = X.tolist()
    elif len(getattr(X, "shape", (0, 0))) == 1 and hasattr(X, "to_list"):  # a series of pandas or polars
        entries = X.to_list()
    elif hasattr(X, "to_pylist") and not hasattr(X, "column_names"):  # an array of pyarrow
        entries = X.to_pylist()
    else:
        return None
    return entries if any(isinstance(entry, str | os.PathLike) for entry in entries) else None


def raw_table(entries: Sequence[Any], kind: Kind) -> Table:
    """The entries as rows without labels; a UserError names the first that is not of this kind."""
    if kind == "image":
        return rows_table(len(entries), images=[picture(entry, row) for row, entry in enumerate(entries)])
    texts = [text(entry, row) for row, entry in enumerate(entries)]
    empty = [row for row, entry in enumerate(texts) if not entry.strip()]
    if empty:
        log.warning("X: row %d is an empty text (%d in all): nothing is known about it", empty[0], len(empty))
    return rows_table(len(entries), texts=texts)


def rows_table(n: int, **rows: Any) -> Table:
    """X as a table of rows without labels, so that messages say "X: row 3"."""
    return Table("X", np.full(n, UNLABELED, dtype=np.int64), (), tuple(map(str, range(n))), **rows)


def kind_of_entries(entries: Sequence[Any], encoder: Any) -> Kind:
    """Pictures where all entries are named like picture files, else texts."""
    if isinstance(encoder, str) and encoder in OF_TEXTS:
        return "text"
    named = [row for row, entry in enumerate(entries) if is_named_picture(entry)]
    there = next((row for row in named if Path(entries[row]).is_file()), None)
    if len(named) == len(entries):
        if there is None:
            raise UserError(
                f"X: row 0: there is no picture file {entries[0]}, nor any of the others; if these are texts, "
                "say so with encoder='tfidf'"
            )
        return "image"
    if there is not None:  # texts do not name files that are there
        other = next(row for row, entry in enumerate(entries) if not is_named_picture(entry))
        raise UserError(
            f"X: row {other} is {shown(entries[other])}, but row {there} is a picture file ({entries[there]}); "
            f"expected all rows to be paths of pictures ({', '.join(IMAGE_SUFFIXES)}), or all to be texts"
        )
    return "text"


def is_named_picture(entry: Any) -> bool:
    if isinstance(entry, os.PathLike):
        return True
    return isinstance(entry, str) and entry.lower().endswith(IMAGE_SUFFIXES) and "\n" not in entry


def picture(entry: Any, row: int) -> Path:
    if not isinstance(entry, str | os.PathLike):
        raise UserError(f"X: row {row} is {shown(entry)}, expected the path of a picture")
    path = Path(entry)
    if not path.is_file():
        raise UserError(f"X: row {row}: there is no picture file {path}")
    return path


def text(entry: Any, row: int) -> str:
    if isinstance(entry, str):
        return entry
    if is_missing(entry):
        raise UserError(f"X: row {row} is {entry!r}, expected a text; leave the row out, or make it ''")
    raise UserError(f"X: row {row} is {shown(entry)}, expected a text")


def shown(entry: Any) -> str:
    return f"{str(entry)[:40]!r} ({type(entry).__name__})"
