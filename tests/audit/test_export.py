"""Files of an audit, read back by their own parsers."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from audit.worlds import world
from pars.audit import AuditReport, Content, score, write_audit
from pars.audit.export import (
    as_argilla,
    as_csv,
    as_fiftyone,
    as_label_studio,
    as_prodigy,
    columns,
    label_studio_config,
    write_parquet,
)
from pars.errors import UserError

NAMES = ["R&D", 'say "hi"', "a,b", "<b>", "ünï", *(f"class {k}" for k in range(5, 12))]
TEXTS = [f"text {row}, with a comma" for row in range(200)]


@pytest.fixture(scope="module")
def report() -> AuditReport:
    here = world(n=200, k=12)
    labels = here.labels.copy()
    labels[7] = -1
    return score(here.p, labels, classes=NAMES, evidence={"p_mean": np.linspace(0, 1, 200)})


def test_the_table_has_every_row_and_both_sets_of_names(report: AuditReport) -> None:
    lines = list(csv.DictReader(io.StringIO(as_csv(report, Content(ids=[f"id{row}" for row in range(200)])))))
    assert len(lines) == 200
    first = lines[0]
    assert list(first)[:8] == [
        "rank",
        "index",
        "id",
        "given_label",
        "suggested_label",
        "label_right_prob",
        "why",
        "is_label_issue",
    ]
    assert {"label_score", "predicted_label", "p_mean"} <= first.keys()
    assert "knn_agree" not in first
    for line in lines:
        row = int(line["index"])
        assert line["id"] == f"id{row}"
        assert line["given_label"] == ("" if row == 7 else NAMES[report.given[row]])
        assert line["suggested_label"] == NAMES[report.suggested[row]]
        assert line["label_score"] == line["label_right_prob"]
        assert line["is_label_issue"] == str(bool(report.is_label_issue[row]))
    assert float(first["label_right_prob"]) == pytest.approx(report.label_right_prob[report.suspects[0]], rel=1e-5)
    assert lines[-1]["label_right_prob"] == ""


def test_the_table_begins_with_the_most_suspect_row_and_ends_with_the_unlabeled_one(report: AuditReport) -> None:
    lines = list(csv.DictReader(io.StringIO(as_csv(report))))
    assert [int(line["index"]) for line in lines] == [*report.suspects, 7]
    assert [int(line["rank"]) for line in lines] == [*range(1, 200), 0]


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_of_the_table_is_a_formula(sign: str, report: AuditReport) -> None:
    hostile = f"{sign}cmd|' /C calc'!A0"
    text = as_csv(report, Content("text", [hostile] * 200, ids=[hostile] * 200))
    for line in csv.DictReader(io.StringIO(text, newline="")):
        assert line["id"] == line["text"] == f"'{hostile}"
        assert float(line["margin"] or 0) == pytest.approx(
            0 if line["index"] == "7" else report.margin[int(line["index"])], rel=1e-4, abs=1e-6
        )


def test_parquet_holds_what_the_table_holds(report: AuditReport, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write_parquet(report, tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet").to_pydict()
    assert table.keys() == columns(report).keys()
    assert table["index"] == [*report.suspects, 7]
    assert table["suggested_label"] == [NAMES[report.suggested[row]] for row in table["index"]]


def test_without_pyarrow_the_message_says_what_to_install(
    report: AuditReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"Parquet needs pyarrow: pip install 'pars-lnl\[parquet\]'"):
        write_parquet(report, tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [Content(), Content("text", TEXTS), Content("image", TEXTS)])
def test_label_studio_tasks_fit_their_configuration(report: AuditReport, content: Content) -> None:
    tasks = json.loads(as_label_studio(report, report.suspects[:20], content))
    view = ET.fromstring(label_studio_config(report.classes, content))
    field, control = view[0], view[1]
    assert field.tag == ("Image" if content.kind == "image" else "Text")
    allowed = {choice.get("value") for choice in control}
    assert allowed == set(NAMES)
    ids = set()
    for row, task in zip(report.suspects, tasks, strict=False):
        (prediction,) = task["predictions"]
        (result,) = prediction["result"]
        assert (result["from_name"], result["to_name"]) == (control.get("name"), field.get("name"))
        assert control.get("toName") == field.get("name")
        assert field.get("value") == f"${result['to_name']}"
        assert result["type"] == "choices"
        assert set(result["value"]["choices"]) <= allowed
        assert task["data"][field.get("name")] == (f"row {row}" if content.values is None else TEXTS[row])
        assert task["data"]["label_right_prob"] == pytest.approx(report.label_right_prob[row], abs=1e-6)
        assert prediction["score"] == pytest.approx(report.suggested_prob[row], abs=1e-6)
        ids.add(result["id"])
    assert len(ids) == len(tasks) == 20


def test_records_of_the_other_tools(report: AuditReport) -> None:
    rows = [*report.suspects[:3], 7]
    samples = json.loads(as_fiftyone(report, rows, Content("image", TEXTS)))
    assert samples["classes"] == NAMES
    for row, sample in zip(rows[:3], samples["samples"][:3], strict=True):
        assert sample["ground_truth"]["label"] == NAMES[report.given[row]]
        assert sample["pars"]["label"] == NAMES[report.suggested[row]]
        assert sample["mistakenness"] == pytest.approx(1 - report.label_right_prob[row], abs=1e-6)
        assert (sample["mistake"], sample["tags"]) == (True, ["label_suspect"])
        assert sample["filepath"] == TEXTS[row]
    assert samples["samples"][3]["ground_truth"] is None

    records = [json.loads(line) for line in as_argilla(report, rows, Content("text", TEXTS)).splitlines()]
    assert [record["text"] for record in records] == [TEXTS[row] for row in rows]
    assert records[0]["label"] == NAMES[report.suggested[rows[0]]]
    assert "label_right_prob" not in records[3]

    tasks = [json.loads(line) for line in as_prodigy(report, rows).splitlines()]
    for row, task in zip(rows, tasks, strict=True):
        options = [option["id"] for option in task["options"]]
        assert len(options) == len(set(options)) <= 6
        assert task["accept"][0] == options[0] == NAMES[report.suggested[row]]
        assert row == 7 or NAMES[report.given[row]] in options
    assert tasks[0]["meta"]["rank"] == 1


def test_a_folder_holds_what_was_asked_for(report: AuditReport, tmp_path: Path) -> None:
    written = write_audit(report, tmp_path / "a" / "b", ("csv", "label-studio", "prodigy", "argilla"), top=5)
    assert {path.name for path in written} == {path.name for path in (tmp_path / "a" / "b").iterdir()}
    assert len((tmp_path / "a/b/prodigy.jsonl").read_text().splitlines()) == 5
    summary = json.loads((tmp_path / "a/b/summary.json").read_text())
    assert summary["n"] == 200
    assert summary["n_labeled"] == 199
    assert summary["noise_rate"] == pytest.approx(report.noise_rate)
    assert np.shape(summary["transition_matrix"]) == (12, 12)
    assert summary["label_issues"] == report.is_label_issue.sum()
    assert len(write_audit(report, tmp_path / "a" / "b", ("fiftyone",))) == 2
    issues = json.loads((tmp_path / "a/b/fiftyone.json").read_text())["samples"]
    assert len(issues) == report.is_label_issue.sum()


def test_mistakes_are_named(report: AuditReport, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown format 'xls'; there are: csv, parquet, label-studio"):
        write_audit(report, tmp_path / "out", ("csv", "xls"))
    with pytest.raises(UserError, match="3 values of text, expected 200"):
        write_audit(report, tmp_path / "out", content=Content("text", ["a", "b", "c"]))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="cannot create the folder"):
        write_audit(report, tmp_path / "file")
    assert not (tmp_path / "out").exists()
