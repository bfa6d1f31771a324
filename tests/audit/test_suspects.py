"""The list of suspects that people see: in a terminal, in a notebook, as a frame."""

from __future__ import annotations

import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.cells import cell_len

from audit.worlds import world
from pars.audit import AuditReport, Content, score, suspects_html, suspects_text
from pars.errors import UserError

HOSTILE = "<script>alert('x')</script>\x1b[31m\nsecond line\t\u202e 漢字" + "x" * 300


@pytest.fixture(scope="module")
def report() -> AuditReport:
    here = world(n=300, k=4)
    return score(here.p, here.labels, classes=["a", "<b>", "漢字漢字漢字漢字漢字漢字", "d" * 60])


@pytest.mark.parametrize("kind", ["text", "image"])
def test_ten_rows_fit_into_eighty_columns_whatever_they_hold(kind: str, report: AuditReport) -> None:
    content = Content(kind, [f"{row} {HOSTILE}" for row in range(300)])  # type: ignore[arg-type]
    heading, *lines = suspects_text(report, content=content).splitlines()
    assert heading.split() == ["row", "given", "suggested", "reason", kind]
    assert [int(line.split()[0]) for line in lines] == report.suspects[:10].tolist()
    assert max(map(cell_len, lines)) <= 80
    assert all(line.isprintable() for line in lines)


def test_the_end_of_a_path_is_shown_and_the_beginning_of_a_text(report: AuditReport) -> None:
    long = [f"{row:03}/{'folder/' * 20}{row:03}.png" for row in range(300)]
    first = int(report.suspects[0])
    assert suspects_text(report, content=Content("image", long)).splitlines()[1].endswith(f"{first:03}.png")
    assert f"  {first:03}/folder" in suspects_text(report, content=Content("text", long)).splitlines()[1]


def test_only_flagged_rows_are_listed_unless_a_number_is_asked_for() -> None:
    p = np.array([[0.9, 0.1]] * 30 + [[0.1, 0.9]] * 30)
    one = score(p, [0] * 30 + [1] * 29 + [0])
    assert len(suspects_text(one).splitlines()) == 2
    assert len(suspects_text(one, 5).splitlines()) == 6


def test_rows_without_texts_are_named_where_they_have_names(report: AuditReport) -> None:
    first = int(report.suspects[0])
    named = suspects_text(report, content=Content(ids=[f"ticket {row}" for row in range(300)]))
    assert named.splitlines()[1].endswith(f"ticket {first}")
    numbered = suspects_text(report, content=Content(ids=[str(row) for row in range(300)]))
    assert numbered == suspects_text(report)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        assert attrs == []

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def test_the_table_of_a_notebook_is_escaped_and_small(report: AuditReport) -> None:
    tags = Tags()
    html = suspects_html(report, content=Content("text", [HOSTILE] * 300))
    tags.feed(html)
    assert set(tags.found) == {"table", "thead", "tbody", "tr", "th", "td"}
    assert tags.found.count("tr") == 11
    assert "<script>alert('x')</script>" in "".join(tags.cells)
    assert len(html) < 10_000
    whole = Tags()
    whole.feed(report._repr_html_())
    assert set(whole.found) == {"p", "table", "thead", "tbody", "tr", "th", "td"}


def test_a_report_is_one_line_in_a_terminal_and_a_list_when_printed(report: AuditReport) -> None:
    assert repr(report).startswith("<AuditReport of 300 rows and 4 classes: ")
    assert "\n" not in repr(report)
    assert str(report) == f"{report!r}\n{suspects_text(report)}"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_has_the_rows_of_the_table(library: str, report: AuditReport) -> None:
    pytest.importorskip(library)
    frame = report.to_frame(library)  # type: ignore[arg-type]
    assert type(frame).__module__.startswith(library)
    assert list(frame["index"]) == report.suspects.tolist()
    assert list(frame["given_label"])[:3] == [report.classes[report.given[row]] for row in report.suspects[:3]]


def test_the_installed_library_is_taken_and_none_is_an_error(
    report: AuditReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("polars")
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    assert type(report.to_frame()).__module__.startswith("polars")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UserError, match=r"to_frame needs pandas or polars: pip install pandas"):
        report.to_frame()
