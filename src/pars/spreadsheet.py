"""CSV files: lines that can be read back, and text that a spreadsheet does not run."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


def escape_cell(text: str) -> str:
    """The text, with an apostrophe before it where a spreadsheet would run it as a formula (CWE-1236).

    For columns of text in files meant for reading. Columns that are read back are numbers and are not escaped.

    >>> escape_cell("=1+1"), escape_cell("1+1")
    ("'=1+1", '1+1')
    """
    return f"'{text}" if text.startswith(FORMULA_SIGNS) else text


class _Echo:
    """`csv.writer` returns what its file returns: here the line itself."""

    def write(self, line: str) -> str:
        return line


def csv_lines(rows: Iterable[Sequence[object]], *, delimiter: str = ",", end: str = "\n") -> Iterator[str]:
    r"""Rows as lines of CSV.

    Python 3.11 quotes a carriage return only where the line terminator has one, so `csv.writer(lineterminator="\n")`
    writes what `csv.reader` takes for two rows.

    >>> list(csv_lines([("a\rb", 1), ("x,y", None)]))
    ['"a\rb",1\n', '"x,y",\n']
    """
    writer = csv.writer(_Echo(), delimiter=delimiter, lineterminator="\r\n")
    for row in rows:
        line: str = writer.writerow(row)
        yield line[:-2] + end
