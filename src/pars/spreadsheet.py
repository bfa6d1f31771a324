"""Text in CSV files that people open in a spreadsheet."""

from __future__ import annotations

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


def escape_cell(text: str) -> str:
    """The text, with an apostrophe before it where a spreadsheet would run it as a formula (CWE-1236).

    For columns of text in files meant for reading. Columns that are read back are numbers and are not escaped.

    >>> escape_cell("=1+1"), escape_cell("1+1")
    ("'=1+1", '1+1')
    """
    return f"'{text}" if text.startswith(FORMULA_SIGNS) else text
