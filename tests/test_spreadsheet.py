"""CSV lines can be read back, whatever they hold."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pars.data import CHECKED, CheckedLabels, checked_labels_csv, read_checked_labels, read_columns
from pars.spreadsheet import csv_lines

cells = st.text(st.one_of(st.sampled_from('\r\n",; \t'), st.characters(exclude_categories=["Cs"])), max_size=6)


@given(
    rows=st.lists(st.lists(cells, min_size=2, max_size=4), max_size=6),
    mark=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_what_is_written_is_what_is_read(rows: list[list[str]], mark: str, end: str) -> None:
    lines = list(csv_lines(rows, delimiter=mark, end=end))
    assert len(lines) == len(rows)
    assert list(csv.reader(io.StringIO("".join(lines), newline=""), delimiter=mark)) == rows


@pytest.mark.parametrize("name", ["a\rb", "\r", "a\r\nb", "=1\r"])
def test_labels_with_a_carriage_return_are_read_back(tmp_path: Path, name: str) -> None:
    classes = ("cat", name)
    found = CheckedLabels(np.array([1, 0, 1]), np.full(3, CHECKED, dtype=np.int8))
    path = tmp_path / "labels.csv"
    path.write_bytes(checked_labels_csv(found, classes, ids=["x\ry", "b", "c"]).encode())
    assert read_columns(path)["id"] == ["x\ry", "b", "c"]
    assert read_checked_labels(path, np.array([0, 0, 0]), classes).labels.tolist() == [1, 0, 1]
