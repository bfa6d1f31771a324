"""Which columns of a table hold sentences, not categories."""

from __future__ import annotations

import numpy as np

from pars.data.columns import Column, Columns, as_text, is_missing
from pars.errors import UserError

WORDS = 3  # of a value, on average; names, codes and identifiers have fewer


def is_free_text(values: Column) -> bool:
    """Texts of three words or more on average, more than half of them different.

    >>> is_free_text(["the card has not arrived", "where is my card", "please close my account"])
    True
    >>> is_free_text(["Tom", "Rex", "Kim"]), is_free_text(["the same words every time"] * 4), is_free_text([1, 2])
    (False, False, False)
    """
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OUT":
        return False
    known = [value for value in values if not is_missing(value)]
    texts = [value for value in known if isinstance(value, str)]
    if not texts or len(texts) < len(known):
        return False
    return 2 * len(set(texts)) > len(texts) and sum(len(text.split()) for text in texts) >= WORDS * len(texts)


def column_texts(columns: Columns, column: str) -> list[str]:
    """A column as texts, "" where a value is missing."""
    texts = []
    for row, value in enumerate(columns[column]):
        if isinstance(value, list | dict):
            raise UserError(f"{columns.where(row, column)} holds a {type(value).__name__}, expected a text")
        texts.append("" if is_missing(value) else value if isinstance(value, str) else as_text(value))
    return texts
