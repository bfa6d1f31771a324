"""From decisions to files, and from labels.csv back to labels."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pars import corrections, data
from pars.corrections import Decision, ReviewedRows, TableSource, write_corrections
from pars.data import CHECKED, DROPPED, TRUSTED, UNCHECKED
from pars.errors import UserError

CLASSES = ("=1+1", "@cmd", "cat")
DECISIONS = [
    Decision(3, "drop", -1, "2026-01-01T00:00:00Z"),
    Decision(0, "relabel", 2, "2026-01-01T00:00:00Z"),
    Decision(1, "keep", 1, "2026-01-01T00:00:00Z"),
]


def five_rows() -> ReviewedRows:
    return ReviewedRows(
        CLASSES,
        np.array([0, 1, 2, 0, 1]),
        np.array([1, 0, 2, 1, 1]),
        np.array([0.1, 0.2, 0.9, 0.3, 0.8]),
        ids=["-a", "b", "c", "d", "e"],
    )


def write_table(folder: Path) -> TableSource:
    file = folder / "t.csv"
    file.write_text("id,text,y\n-a,+1,=1+1\nb,b,@cmd\nc,c,cat\nd,d,=1+1\ne,e,@cmd\n")
    return TableSource(file, "y", {"text": "text", "id": "id"})


def test_texts_are_escaped_and_numbers_are_what_is_read_back(tmp_path: Path) -> None:
    source = write_table(tmp_path)
    write_corrections(tmp_path / "review", five_rows(), DECISIONS, source)
    with (tmp_path / "review" / "corrections.csv").open(newline="") as file:
        first, second, third = csv.DictReader(file)
    assert (first["row"], first["id"], first["given"]) == ("0", "'-a", "'=1+1")
    assert (first["label"], first["label_name"]) == ("2", "cat")
    assert (second["action"], second["label"], second["label_name"]) == ("keep", "1", "'@cmd")
    assert (third["action"], third["label"], third["quality"]) == ("drop", "", "0.3")
    lines = [json.loads(line) for line in (tmp_path / "review" / "corrections.jsonl").read_text().splitlines()]
    assert [line["given"] for line in lines] == ["=1+1", "@cmd", "=1+1"]  # without loss
    table = data.with_checked_labels(source.read(), tmp_path / "review" / "labels.csv")
    named = [table.classes[label] if label >= 0 else None for label in table.labels]
    assert named == ["cat", "@cmd", "cat", None, "@cmd"]
    assert table.classes == ("@cmd", "cat")  # no row is =1+1 any more
    assert table.checked is not None
    assert table.checked.tolist() == [CHECKED, CHECKED, UNCHECKED, DROPPED, UNCHECKED]
    assert table.true_labels is not None
    assert table.true_labels.tolist() == [1, 0, -1, -1, -1]


def test_the_corrected_table_has_the_decided_changes_only(tmp_path: Path) -> None:
    source = write_table(tmp_path)
    files = write_corrections(tmp_path / "review", five_rows(), DECISIONS, source)
    assert files[-1].read_text() == "id,text,y\n-a,+1,cat\nb,b,@cmd\nc,c,cat\ne,e,@cmd\n"


def test_a_second_review_goes_on_from_the_first(tmp_path: Path) -> None:
    source = write_table(tmp_path)
    write_corrections(tmp_path / "one", five_rows(), DECISIONS, source)
    table = data.with_checked_labels(source.read(), tmp_path / "one" / "labels.csv")
    # The fit has two classes left; its rows are reviewed again.
    n = np.zeros(5)
    again = ReviewedRows(table.classes, table.labels, table.labels, n, table.ids, table.checked)
    write_corrections(tmp_path / "two", again, [Decision(4, "relabel", 1)], source)
    assert (tmp_path / "two" / "corrected.csv").read_text() == "id,text,y\n-a,+1,cat\nb,b,@cmd\nc,c,cat\ne,e,cat\n"
    last = data.with_checked_labels(source.read(), tmp_path / "two" / "labels.csv")
    assert last.checked is not None
    assert last.checked.tolist() == [CHECKED, CHECKED, UNCHECKED, DROPPED, CHECKED]


def test_a_table_that_has_changed_is_refused(tmp_path: Path) -> None:
    source = write_table(tmp_path)
    source.path.write_text(source.path.read_text().replace("e,e,@cmd", "e,e,cat"))
    with pytest.raises(UserError, match=r"row 4 \(line 6\) is labeled 'cat', in the review '@cmd'"):
        write_corrections(tmp_path / "review", five_rows(), DECISIONS, source)
    source.path.write_text("".join(source.path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(UserError, match="has 4 rows, the review 5"):
        write_corrections(tmp_path / "review", five_rows(), DECISIONS, source)


def test_random_rows_become_a_trusted_test_set_if_there_are_enough(tmp_path: Path) -> None:
    n = 60
    rows = ReviewedRows(("a", "b"), np.arange(n) % 2, np.arange(n) % 2, np.ones(n))
    for drawn, expected in ((10, CHECKED), (30, TRUSTED)):
        decisions = [Decision(row, "keep", row % 2) for row in range(drawn)]
        write_corrections(tmp_path, rows, decisions, random=range(drawn))
        found = data.read_checked_labels(tmp_path / "labels.csv", rows.given, rows.classes)
        assert found.checked.tolist() == [expected] * drawn + [UNCHECKED] * (n - drawn)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("5,x,0,=1+1,human,", r"row 0 \(line 2\), column 'row' is '5', expected a number from 0 to 4"),
        ("-1,x,0,=1+1,human,", "expected a number from 0 to 4"),
        ("0,x,3,cat,human,", "column 'label' is '3', expected a number from 0 to 2"),
        ("0,x,1.0,@cmd,human,", "column 'label' is '1.0', expected a number"),
        ("0,x,,,human,", "column 'label' is '', expected a number"),
        ("0,x,2,cat,given,", "is 2 as given, but the data has 0"),
        ("0,x,2,'@cmd,human,", "is \"'@cmd\", but class 2 of the data is 'cat'"),
        ("0,x,2,cat,robot,", "is 'robot', expected given, human or dropped"),
        ("0,x,2,cat,human,\n0,x,2,cat,human,", "0 for the second time"),
    ],
)
def test_a_labels_file_of_other_data_is_refused_with_its_row(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(f"row,id,label,label_name,source,sample\n{line}\n")
    with pytest.raises(UserError, match=message):
        data.read_checked_labels(file, five_rows().given, CLASSES)


def test_images_of_a_folder_become_a_table_of_path_and_label(tmp_path: Path) -> None:
    for name in ("cat/1.png", "dog/2.png", "dog/3.png"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / "photos" / name)
    rows = ReviewedRows(("cat", "dog"), np.array([0, 1, 1]), np.array([1, 1, 0]), np.array([0.1, 0.9, 0.2]))
    source = TableSource(tmp_path / "photos", None)
    decisions = [Decision(0, "accept", 1), Decision(2, "drop", -1)]
    file = write_corrections(tmp_path / "review", rows, decisions, source)[-1]
    table = data.read_table(file, label="label", image="path", classes=("cat", "dog"))
    assert table.images is not None
    assert [path.name for path in table.images] == ["1.png", "2.png"]
    assert table.labels.tolist() == [1, 1]


def test_a_rule_accepts_suggestions_above_a_probability() -> None:
    found = corrections.decide_by_rule(five_rows(), above=0.75)
    assert [(d.row, d.action, d.label) for d in found] == [(0, "accept", 1), (1, "accept", 0)]
    with pytest.raises(UserError, match="expected a probability"):
        corrections.decide_by_rule(five_rows(), above=1.0)
