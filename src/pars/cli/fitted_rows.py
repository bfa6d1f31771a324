"""Rows for a run to look at: arrays as they are; tables, texts and pictures as the fit read its own."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from pars import data, encode
from pars.data import Inputs, Labels, Table
from pars.errors import UserError
from pars.files import expanded
from pars.fit_folder import fit_of


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs [n, …], labels [n] (-1 = none), and names where the rows have some."""

    inputs: Inputs
    labels: Labels
    ids: tuple[str, ...] | None = None


def add_rows_flags(parser: argparse.ArgumentParser, *, label: bool = False) -> None:
    """For tables that are not quite like the one of the fit."""
    if label:
        parser.add_argument("--label", metavar="COLUMN", help="of a table: the labels (default: as in the fit)")
    parser.add_argument("--id", metavar="COLUMN", help="of a table: names of the rows")
    parser.add_argument("--delimiter", metavar="CHARACTER", help="of a CSV file (default: as in the fit)")
    parser.add_argument("--encoding", metavar="NAME", help="of a text file (default: as in the fit)")
    parser.add_argument("--encoder", metavar="NAME", help="only where it is a function: python:MODULE:FUNCTION")
    parser.add_argument("--root", help="folder of the data sets")


def read_rows(options: argparse.Namespace, classes: tuple[str, ...] | None = None) -> Rows:
    """The rows that `options.data` names for `options.run`; with classes also their labels, by those numbers."""
    fit, labels = fit_of(options.run), classes is not None
    if not is_raw(options.data):
        split = data.load_rows(options.data, root=options.root, classes=classes, labels=labels)
        if fit is None or split.inputs.ndim == 2:
            return Rows(split.inputs, split.labels)
        images = Table(options.data, split.labels, (), tuple(map(str, range(len(split)))), array=split.inputs)
        return Rows(encode.load_preprocessor(fit, options.encoder).transform(images)[0], split.labels)
    if fit is None:
        raise UserError(
            f"{options.data}: {options.run} was trained on arrays, expected an .npz file; `pars encode` makes one, and "
            "runs of `pars fit` read tables and pictures themselves"
        )
    preparation = encode.load_preprocessor(fit, options.encoder)
    table = preparation.read(options.data, labels=labels, **given(options), **({"classes": classes} if labels else {}))
    named = table.ids != tuple(map(str, range(len(table))))
    return Rows(preparation.transform(table)[0], table.labels, table.ids if named else None)


def given(options: argparse.Namespace) -> dict[str, Any]:
    """The flags of columns that were set."""
    found = {name: getattr(options, name, None) for name in ("label", "id", "delimiter", "encoding")}
    return {name: "\t" if value == r"\t" else value for name, value in found.items() if value is not None}


def is_raw(source: str) -> bool:
    """A table or a folder of pictures, rather than arrays or a data set's name."""
    path = expanded(source)
    if source in data.NAMES or not path.exists():
        return False
    if path.is_dir():
        return not data.is_idx_folder(path) and not any(path.glob("*.npy"))
    return path.suffix.lower() in data.TABLES
