"""Parquet files, and frames handed over in Python: pandas, polars, pyarrow, or a dictionary of columns.

Frames are known by what they can do, not by their class: none of these libraries is needed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pars.data.columns import Column, Columns
from pars.errors import UserError


def read_parquet(path: Path) -> Columns:
    """The columns of a Parquet file."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError(
            f"{path}: Parquet files need pyarrow: pip install pyarrow (or write the table as CSV)"
        ) from None
    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path}: not a complete Parquet file ({error}); cut off, or another format?") from None
    return frame_columns(table, str(path))


def is_frame(value: object) -> bool:
    """Can `frame_columns` read it? Lists, texts, paths and arrays are none.

    >>> is_frame({"a": [1, 2]}), is_frame(np.zeros((2, 2))), is_frame("table.csv")
    (True, False, False)
    """
    return isinstance(value, Mapping) or hasattr(value, "column_names") or hasattr(value, "columns")


def frame_columns(frame: Any, source: str = "frame") -> Columns:
    """The columns of a frame.

    >>> frame_columns({"age": [3, None]})["age"]
    [3, None]
    """
    if isinstance(frame, Columns):
        return frame
    if isinstance(frame, Mapping):
        pairs = list(frame.items())
    elif hasattr(frame, "column_names"):  # pyarrow, whose .columns are the columns themselves
        pairs = [(name, frame.column(at)) for at, name in enumerate(frame.column_names)]
    elif hasattr(frame, "iloc"):  # pandas: by place, for names may be numbers or occur twice
        pairs = [(name, frame.iloc[:, at]) for at, name in enumerate(frame.columns)]
    else:
        pairs = [(name, frame[name]) for name in frame.columns]
    out: dict[str, Column] = {}
    for name, column in pairs:
        if str(name) in out:
            raise UserError(f"{source}: two columns are named {str(name)!r}, expected every name once")
        out[str(name)] = _values(column)
    columns = Columns(source, out)
    if not columns.n_rows:
        raise UserError(f"{source}: no rows, expected at least one")
    return columns


def _values(column: Any) -> Column:
    if isinstance(column, np.ndarray):
        return column
    if isinstance(dtype := getattr(column, "dtype", None), np.dtype) and dtype.kind in "biuf":
        return np.asarray(column)  # pandas' plain numbers
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)
