"""What counts as a missing value, for values of numpy, pandas and Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pars import data
from pars.missing import is_missing

MISSING: list[Any] = [None, float("nan"), np.float16("nan"), np.float64("nan"), np.datetime64("NaT")]
VALUES: list[Any] = [
    0,
    0.0,
    False,
    -1,
    "nan",
    "NA",
    "?",
    "cat",
    np.int64(0),
    np.datetime64("2020-01-01"),
    [],
    float("inf"),
]


@pytest.mark.parametrize("empty_text", [True, False])
def test_none_and_nan_are_missing_and_values_are_not(empty_text: bool) -> None:
    assert all(is_missing(value, empty_text=empty_text) for value in MISSING)
    assert not any(is_missing(value, empty_text=empty_text) for value in VALUES)


def test_the_missing_values_of_pandas_are_missing() -> None:
    pandas = pytest.importorskip("pandas")
    values = [pandas.NA, pandas.NaT, *pandas.Series([1, None], dtype="Int64"), *pandas.Series(["a", None])]
    assert [is_missing(value) for value in values] == [True, True, False, True, False, True]


@pytest.mark.parametrize("text", ["", " ", "\t\n"])
def test_an_empty_text_is_missing_where_the_caller_says_so(text: str) -> None:
    assert is_missing(text)
    assert not is_missing(text, empty_text=False)


def test_data_shares_the_function() -> None:
    assert data.is_missing is is_missing
