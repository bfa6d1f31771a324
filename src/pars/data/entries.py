"""Texts or paths of images in a list, an array or a series, as a `Table`; each entry is checked."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pars.data.dataset import UNLABELED
from pars.data.images import IMAGE_SUFFIXES
from pars.data.table import Table
from pars.errors import UserError
from pars.missing import is_missing

log = logging.getLogger(__name__)

Kind = Literal["text", "image"]
TEXT_ENCODERS = ("tfidf", "minilm")  # with one of these, rows are texts even if they look like file names


def entries(rows: Any, name: str = "rows") -> Sequence[Any] | None:
    """The entries of one-dimensional rows of texts or paths; None where the rows are anything else.

    Messages call the rows `name`.

    >>> entries(["a text", None]), entries(np.array(["a", "b"])), entries([[1.0], [2.0]])
    (['a text', None], ['a', 'b'], None)
    """
    if isinstance(rows, str | os.PathLike):
        raise UserError(f"{name} is one text, {str(rows)[:40]!r}, expected a list of them")
    if isinstance(rows, list | tuple):
        found: Sequence[Any] = rows
    elif isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in "OUT":
        found = rows.tolist()
    elif len(getattr(rows, "shape", (0, 0))) == 1 and hasattr(rows, "to_list"):  # a series of pandas or polars
        found = rows.to_list()
    elif hasattr(rows, "to_pylist") and not hasattr(rows, "column_names"):  # an array of pyarrow
        found = rows.to_pylist()
    else:
        return None
    return found if any(isinstance(entry, str | os.PathLike) for entry in found) else None


def entry_table(entries: Sequence[Any], kind: Kind, name: str = "rows") -> Table:
    """The entries as a table without labels; a UserError names the first that is not of this kind."""
    if kind == "image":
        return table_of(name, len(entries), images=[_image(e, f"{name}: row {row}") for row, e in enumerate(entries)])
    texts = [_text(entry, f"{name}: row {row}") for row, entry in enumerate(entries)]
    empty = [row for row, entry in enumerate(texts) if not entry.strip()]
    if empty:
        log.warning("%s: row %d is an empty text (%d in all): it carries no information", name, empty[0], len(empty))
    return table_of(name, len(entries), texts=texts)


def table_of(name: str, n: int, **rows: Any) -> Table:
    """n rows without labels, numbered; messages call them `name`."""
    return Table(name, np.full(n, UNLABELED, dtype=np.int64), (), tuple(map(str, range(n))), **rows)


def kind_of_entries(entries: Sequence[Any], encoder: Any, name: str = "rows") -> Kind:
    """Images where all entries are named like image files, else texts."""
    if isinstance(encoder, str) and encoder in TEXT_ENCODERS:
        return "text"
    named = [row for row, entry in enumerate(entries) if _is_named_image(entry)]
    there = next((row for row in named if Path(entries[row]).is_file()), None)
    if len(named) == len(entries):
        if there is None:
            raise UserError(
                f"{name}: row 0: there is no image file {entries[0]}, nor any of the others; if these are texts, "
                "say so with encoder='tfidf'"
            )
        return "image"
    if there is not None:  # texts do not name existing files
        other = next(row for row, entry in enumerate(entries) if not _is_named_image(entry))
        raise UserError(
            f"{name}: row {other} is {_shown(entries[other])}, but row {there} is an image file ({entries[there]}); "
            f"expected all rows to be paths of images ({', '.join(IMAGE_SUFFIXES)}), or all to be texts"
        )
    return "text"


def _is_named_image(entry: Any) -> bool:
    if isinstance(entry, os.PathLike):
        return True
    return isinstance(entry, str) and entry.lower().endswith(IMAGE_SUFFIXES) and "\n" not in entry


def _image(entry: Any, where: str) -> Path:
    if not isinstance(entry, str | os.PathLike):
        raise UserError(f"{where} is {_shown(entry)}, expected the path of an image")
    path = Path(entry)
    if not path.is_file():
        raise UserError(f"{where}: there is no image file {path}")
    return path


def _text(entry: Any, where: str) -> str:
    if isinstance(entry, str):
        return entry
    if is_missing(entry):
        raise UserError(f"{where} is {entry!r}, expected a text; leave the row out, or make it ''")
    raise UserError(f"{where} is {_shown(entry)}, expected a text")


def _shown(entry: Any) -> str:
    return f"{str(entry)[:40]!r} ({type(entry).__name__})"
