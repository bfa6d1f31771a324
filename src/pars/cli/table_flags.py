"""Flags that say which columns of a table are what; for every command that reads one."""

from __future__ import annotations

import argparse
from typing import Any

COLUMNS = ("label", "text", "image", "features", "id", "true", "unlabeled", "delimiter", "encoding")


def add_table_flags(parser: argparse.ArgumentParser, *, features: bool = False) -> None:
    """`features`: also for tables of numbers and categories."""
    parser.add_argument("--label", metavar="COLUMN", help="the given labels")
    parser.add_argument("--text", metavar="COLUMN", help="the texts")
    parser.add_argument("--image", metavar="COLUMN", help="paths of pictures, relative to the table")
    if features:
        parser.add_argument(
            "--features", metavar="COLUMN", nargs="+", help="numbers and categories (default: all others)"
        )
    parser.add_argument("--id", metavar="COLUMN", help="names of the rows (default: their numbers)")
    parser.add_argument("--true", metavar="COLUMN", help="the right labels, where known; only used to measure")
    parser.add_argument("--unlabeled", metavar="LABEL", help='label that means "none"; "" for empty ones')
    parser.add_argument("--delimiter", metavar="CHARACTER", help="of a CSV file (default: found out)")
    parser.add_argument("--encoding", metavar="NAME", help="of a text file (default: UTF-8)")


def add_new_rows_flags(parser: argparse.ArgumentParser, *, label: bool = False) -> None:
    """For rows to predict on, where they differ from those of the fit."""
    if label:
        parser.add_argument("--label", metavar="COLUMN", help="of a table: the labels (default: as in the fit)")
    parser.add_argument("--id", metavar="COLUMN", help="of a table: names of the rows")
    parser.add_argument("--delimiter", metavar="CHARACTER", help="of a CSV file (default: as in the fit)")
    parser.add_argument("--encoding", metavar="NAME", help="of a text file (default: as in the fit)")
    parser.add_argument("--encoder", metavar="NAME", help="only where it is a function: python:MODULE:FUNCTION")
    parser.add_argument("--root", help="folder of the data sets")


def new_rows_options(options: argparse.Namespace) -> dict[str, Any]:
    """The flags of `add_new_rows_flags` that were set, as arguments of `Predictor.read`."""
    found = {name: getattr(options, name, None) for name in ("label", "id", "delimiter", "encoding", "root")}
    return {name: "\t" if value == r"\t" else value for name, value in found.items() if value is not None}


def table_options(options: argparse.Namespace) -> dict[str, Any]:
    """The flags as arguments of `data.read_table`; "\\t" typed in a shell means a tab."""
    chosen = {name: getattr(options, name) for name in COLUMNS if hasattr(options, name)}
    return chosen | {"delimiter": "\t" if chosen["delimiter"] == r"\t" else chosen["delimiter"]}
