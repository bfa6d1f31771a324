"""`pars report`: one file, for every kind of folder, whatever the rows contain."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli.helpers import DIGITS, one_document, pars, refused

from html_report.folders import CLASSES, HOSTILE, Reader
from pars.fitting import Gain, Retraining

SCRIPTED = ("script", "iframe", "object", "embed", "form", "base")


def report_of(folder: Path, tmp_path: Path, *flags: str) -> Reader:
    out = tmp_path / "report.html"
    assert pars("report", folder, out, *flags) == 0
    page = out.read_text(encoding="utf-8")
    read = Reader(page)
    assert not set(read.tags) & set(SCRIPTED)
    for tag, name, value in read.attributes:
        assert not name.startswith("on"), (tag, name)
        if name in ("src", "href"):
            assert value.startswith(("data:", "#")), (tag, value)
    assert "url(" not in page
    assert "@import" not in page
    return read


def test_a_fit_of_hostile_texts_is_shown_as_text(texts: Path, tmp_path: Path) -> None:
    read = report_of(texts, tmp_path)
    assert 'alert("x")' in read.text
    assert "{{ 7 * 7 }}" in read.text
    for name in (*CLASSES, HOSTILE.split("\u202e")[0].strip()):
        assert name in read.text
    assert not [value for _, name, value in read.attributes if name == "src"]


def test_a_fit_says_whether_it_helped_with_the_interval_of_its_result(texts: Path, tmp_path: Path) -> None:
    gain = json.loads((texts / "fit.json").read_text())["held_out"]
    read = report_of(texts, tmp_path)
    interval = f"{100 * gain['gain']:+.1f} ({100 * gain['low']:+.1f} to {100 * gain['high']:+.1f})"
    assert interval in read.text
    for heading in (
        "What was trained",
        "Did it help?",
        "Wrong labels by class",
        "Most suspect rows",
        "Curves",
        "Confidence of right and wrong labels",
        "Settings and command",
    ):
        assert heading in read.text
    assert "labels likely wrong (" in read.text
    assert f"pars fit {texts.parent / 'texts.csv'} --label '<b>topic</b>' --text body --id id" in read.text


@pytest.mark.parametrize("judged", [True, False])
def test_a_fit_on_a_review_says_what_the_review_changed(judged: bool, classic: Path, tmp_path: Path) -> None:
    shutil.copytree(classic, tmp_path / "fit")
    change = Gain(rows=200, robust=0.91, plain=0.84, gain=0.07, low=0.031, high=0.11) if judged else None
    found = Retraining(
        "<b>first", 31, 7, 2, "test" if judged else None, change, "" if judged else "no <i>test</i> rows"
    )
    result = json.loads((classic / "fit.json").read_text()) | {"retraining": found.summary()}
    (tmp_path / "fit" / "fit.json").write_text(json.dumps(result))
    read = report_of(tmp_path / "fit", tmp_path)
    assert "31 labels corrected, 7 confirmed, 2 rows dropped, in a review of <b>first." in read.text
    if judged:
        assert "84.0 % and 91.0 % of 200 test rows (+7.0 points, 95 % interval +3.1 to +11.0)" in read.text
        assert "Did your review help?yes+7.0 points" in read.text
    else:
        assert "cannot be judged: no <i>test</i> rows" in read.text
        assert "Did your review help?" not in read.text


def test_suspects_are_those_of_the_audit_in_its_order(texts: Path, tmp_path: Path) -> None:
    capture = tmp_path / "audit"
    assert pars("audit", texts, "--out", capture) == 0
    read = report_of(texts, tmp_path, "--top", "5")
    ids = [text for text in read.texts if text.startswith("<i>")]
    assert len(ids) == 5
    summary = json.loads((capture / "summary.json").read_text())
    assert f"{100 * summary['noise_rate']:.1f} %" in read.text
    assert f"5 rows, most suspect first; {summary['label_issues']} are flagged in all" in read.text


def test_a_fit_without_a_network_has_a_report_too(classic: Path, tmp_path: Path) -> None:
    read = report_of(classic, tmp_path)
    assert "logistic-regression (Logistic regression)" in read.text
    assert "Out-of-fold confidence" in read.text
    assert "Most suspect rows" in read.text
    assert report_of(classic / "robust", tmp_path).text == read.text


def test_table_rows_show_their_cells(columns: Path, tmp_path: Path) -> None:
    read = report_of(columns, tmp_path, "--top", "90")
    assert "<img src=x onerror=alert(2)>" in read.texts
    assert read.texts.count("age") == 90


def test_a_table_that_is_gone_leaves_rows_by_number(columns: Path, tmp_path: Path) -> None:
    copied = tmp_path / "fit"
    shutil.copytree(columns, copied)
    content = json.loads((copied / "content.json").read_text())
    (copied / "content.json").write_text(json.dumps(content | {"source": str(tmp_path / "gone.csv")}))
    read = report_of(copied, tmp_path)
    assert "gone.csv is not there any more" in read.text
    assert "Most suspect rows" in read.text


def test_a_run_shows_images_and_the_interval_of_its_accuracy(digits: Path, tmp_path: Path) -> None:
    read = report_of(digits, tmp_path, "--top", "100")
    images = [value for tag, name, value in read.attributes if (tag, name) == ("img", "src")]
    assert len(images) == 100
    assert all(uri.startswith("data:image/png;base64,") for uri in images)
    assert (tmp_path / "report.html").stat().st_size < 3_000_000
    assert "A single run is not compared with plain training" in read.text
    assert "Known wrong labels" in read.text
    assert "wrong labels (" in read.text
    assert "95 % interval" in read.text


def test_what_a_run_lacks_is_said(unfinished: Path, tmp_path: Path) -> None:
    read = report_of(unfinished, tmp_path)
    assert "No audit of the labels" in read.text
    assert "not finished" in read.text
    assert "Most suspect rows" not in read.text


@pytest.fixture
def unfinished(digits: Path, tmp_path: Path) -> Path:
    """A run without its last files, as after a kill."""
    copied = tmp_path / "unfinished"
    shutil.copytree(digits, copied)
    for name in ("model.safetensors", "dynamics.safetensors", "result.json"):
        (copied / name).unlink()
    return copied


def test_a_run_without_training_dynamics_has_a_report(tmp_path: Path) -> None:
    assert pars("train", *DIGITS, "--train.dynamics-every", "0", "--out", tmp_path / "run") == 0
    assert "dynamics_every = 0" in report_of(tmp_path / "run", tmp_path).text


def test_mistakes_are_one_line(texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for args, words in (
        ((tmp_path / "nothing", tmp_path / "a.html"), "is not a run: expected a folder"),
        ((tmp_path, tmp_path / "a.html"), "is not a run"),
        ((texts, tmp_path), "is a folder, expected a file to write"),
        ((texts, tmp_path / "no" / "a.html"), "does not exist"),
        ((texts, tmp_path / "a.html", "--top", "-1"), "--top is -1"),
    ):
        assert words in refused(("report", *args), tmp_path, capsys)


def test_json_says_where_the_report_is(texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    out = tmp_path / "report.html"
    assert pars("report", texts, out, "--json") == 0
    assert one_document(capsys.readouterr().out) == {"report": str(out), "bytes": out.stat().st_size}


def test_a_report_names_the_method_that_was_returned(classic: Path, tmp_path: Path) -> None:
    shutil.copytree(classic, tmp_path / "fit")
    job, result = (json.loads((classic / name).read_text()) for name in ("job.json", "fit.json"))
    (tmp_path / "fit" / "job.json").write_text(json.dumps(job | {"method": "pars"}))
    (tmp_path / "fit" / "fit.json").write_text(json.dumps(result | {"replaced": "pars"}))
    text = report_of(tmp_path / "fit", tmp_path).text
    assert "logistic-regression compared with plain training" in text
    assert "logistic-regression (Logistic regression), in place of pars" in text
    assert "pars compared with" not in text
