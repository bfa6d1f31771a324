"""Whether a value of a table, a frame or a list of labels is missing."""

from __future__ import annotations

import math

import numpy as np

PANDAS_MISSING = ("NAType", "NaTType")  # by name: pandas is not a dependency
NO_VALUE = frozenset({"", "na", "n/a", "nan", "<na>", "null", "none", "?", "-"})
"""How tables write "not known" in columns of numbers and categories, in lower case. As labels they are names."""


def is_missing(value: object, *, empty_text: bool = True) -> bool:
    """Return whether a value is missing: None, NaN, NaT, or pandas' NA.

    empty_text: whether a text without visible characters counts as missing, as in a table's empty cell.
    Signs such as "NA" and "?" are ordinary text here (see `NO_VALUE`), and 0 and False are values.

    >>> [is_missing(value) for value in (None, float("nan"), np.float32("nan"), " ", "none", 0)]
    [True, True, True, True, False, False]
    >>> is_missing("", empty_text=False)
    False
    """
    if value is None or type(value).__name__ in PANDAS_MISSING:
        return True
    if isinstance(value, str):
        return empty_text and not value.strip()
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and math.isnan(value)
