"""A user's table as rows to train on: encoded once, kept in a folder, and how to encode new rows the same way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars import encode
from pars.data import ColumnEncoder, Inputs, Labels, Table
from pars.errors import UserError
from pars.files import write_atomically, write_text

log = logging.getLogger(__name__)

ROWS, ENCODER, COLUMNS = "rows.npz", "encoder", "columns.json"
Apply = Callable[[Table], Inputs]


def learn(table: Table, encoder: str | None, folder: Path) -> Apply:
    """How rows like these become inputs; what was learned for it is saved in the folder."""
    if table.columns is not None:
        columns = ColumnEncoder.fit(table.columns)
        write_text(folder / COLUMNS, columns.to_json())
        return lambda other: columns.encode(other.columns)
    if table.array is not None and (encoder is None or table.array.ndim == 2):
        return lambda other: as_array(other)
    kind = encode.kind_of(table)
    if encoder is None and kind == "image":
        raise UserError(f"{table.source}: pictures need an encoder, expected one of {', '.join(encode.NAMES)}")
    if encoder is None:
        log.warning("no encoder: TF-IDF and a truncated SVD learn from these texts; a pre-trained one often knows more")
    chosen = encode.encoder(encoder or "tfidf", kind=kind).fitted(table.texts or [])
    encode.save_encoder(chosen, folder / ENCODER)
    return lambda other: encode.encode_rows(other, chosen)[0]


def as_array(table: Table) -> Inputs:
    if table.array is None:
        raise UserError(f"{table.source} has no arrays, expected rows like those of training")
    return table.array


def save_rows(
    path: Path, table: Table, labels: Labels, apply: Apply, test: Table | None, true: Labels | None = None
) -> None:
    """The rows as `pars train --data.name` reads them: whole or not at all."""
    content: dict[str, npt.NDArray[Any]] = {
        "x": apply(table),
        "y": labels,
        "classes": np.array(table.classes),
        "ids": np.array(table.ids),
    }
    if (right := table.true_labels if true is None else true) is not None:
        content["y_true"] = right
    if test is not None:
        content |= {"x_test": apply(test), "y_test": test.labels}

    def write(beside: Path) -> None:
        with beside.open("wb") as file:
            np.savez(file, **content)  # type: ignore[arg-type]

    write_atomically(path, write)
