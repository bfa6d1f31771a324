"""`pars audit`: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from cli.helpers import one_document, pars, refused


@pytest.fixture
def finished(digits_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(digits_run, tmp_path / "run")
    return tmp_path / "run"


def test_an_audit_is_shown_and_written_beside_its_run(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pars("audit", finished, "--top", "3") == 0
    out, err = capsys.readouterr()
    assert "of 200 labels" in " ".join(out.split())
    assert "row  given" in out
    assert f"pars review {finished}" in out
    assert f"wrote {finished / 'audit' / 'audit.csv'}" in err
    rows = list(csv.DictReader((finished / "audit" / "audit.csv").open()))
    assert len(rows) == 200
    assert {row["label_used_in_loss"] for row in rows} == {"True", "False"}  # a tenth is held out


def test_json_is_one_document_with_the_suspects(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    formats = "csv, label-studio,fiftyone,argilla,prodigy"
    capsys.readouterr()
    assert pars("audit", finished, "--json", "--top", "4", "--out", tmp_path / "out", "--format", formats) == 0
    document = one_document(capsys.readouterr().out)
    assert len(document["suspects"]) == 4
    assert document["suspects"][0].keys() == {"row", "given_label", "suggested_label", "label_right_prob"}
    names = {"audit.csv", "label-studio.json", "label-studio.xml", "fiftyone.json", "argilla.jsonl", "prodigy.jsonl"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names | {"summary.json"}
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["n"] == 200
    assert len(json.loads((tmp_path / "out" / "label-studio.json").read_text())) == 4
    assert not (finished / "audit").exists()


def test_neighbors_add_their_votes(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pars("audit", finished, "--neighbors") == 0
    assert "% of neighbors agree" in capsys.readouterr().out
    assert "knn_agree" in (finished / "audit" / "audit.csv").read_text().splitlines()[0]


def test_a_fit_without_a_network_is_audited_corrected_and_inspected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{x},{y}" for x, y in zip(range(80), ["low"] * 40 + ["high"] * 40, strict=True)]
    lines[3], lines[70] = "3,high", "70,low"
    table = tmp_path / "rows.csv"
    table.write_text("x,y\r\n" + "\r\n".join(lines) + "\r\n", newline="")
    fit = tmp_path / "fit"
    train = ("fit", table, "--label", "y", "--features", "x", "--method", "logistic-regression", "--out", fit)
    assert pars(*train, "--apply", "above=0.6") == 0
    assert f"pars review {fit}" in capsys.readouterr().out
    assert pars("audit", fit / "robust", "--apply", "above=0.6") == 0
    assert "nobody has checked them" in capsys.readouterr().out
    corrected = (fit / "audit" / "corrected.csv").read_bytes()
    assert corrected == (fit / "robust" / "audit" / "corrected.csv").read_bytes()
    changed = list(csv.DictReader((fit / "audit" / "corrections.csv").open()))
    expected = table.read_bytes()
    for line in changed:
        row = line["row"]
        before, after = (f"\n{row},{line[name]}\r".encode() for name in ("given", "label_name"))
        assert expected.count(before) == 1
        expected = expected.replace(before, after)
    assert corrected == expected
    assert {"3", "70"} <= {line["row"] for line in changed}
    assert not (fit / "audit" / "labels.csv").exists()
    assert pars("inspect", fit, "--json") == 0
    told = one_document(capsys.readouterr().out)
    assert (told["method"], told["rows"], told["classes"]) == ("logistic-regression", 80, 2)
    assert told["out_of_fold_agreement"] > 80
    for wrong in ("above=0.2", "below=0.9", "above=x", "0.9"):
        assert "is no rule, expected above=P" in refused(("audit", fit, "--apply", wrong), tmp_path, capsys)


def test_mistakes_leave_everything_as_it_was(
    finished: Path, unfinished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for args, words in (
        ((finished, "--format", "xls"), "unknown format 'xls'; there are: csv, parquet"),
        ((finished, "--top", "0"), "--top is 0, expected 1 or more"),
        ((tmp_path,), "is not a run"),
        ((unfinished_run,), "is not finished: `pars resume"),
    ):
        assert words in refused(("audit", *args), tmp_path, capsys)
    (finished / "dynamics.safetensors").unlink()
    assert "dynamics.safetensors is missing" in refused(("audit", finished), tmp_path, capsys)
