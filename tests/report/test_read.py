from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pars.errors import UserError
from pars.report import read_run
from report import folders


def test_a_run_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    run = read_run(folders.write_run(tmp_path / "run"))
    given, true = folders.labels()
    assert run.config["method"]["robust"] == "10*nce+mae"
    assert run.tau == 0.95
    assert run.metrics == [folders.epoch(number) for number in range(1, 31)]
    assert run.result == {"epochs": 30}
    assert list(run.stages) == ["warm-up", "main"]  # in the order they ended, not of the alphabet
    written = folders.rows(20, seed=2)
    np.testing.assert_array_equal(run.stages["main"].confidence, written["confidence"])
    np.testing.assert_array_equal(run.stages["main"].predicted, written["predicted"])
    assert run.labels.names == ("ant, red", "moth", "zebra")
    names = np.array([*run.labels.names, ""])
    assert list(names[run.labels.given]) == [(*folders.CLASSES, "")[label] for label in given]
    assert run.labels.true is not None
    assert list(names[run.labels.true]) == [folders.CLASSES[label] for label in true]


def test_a_label_is_correct_or_wrong_by_labels_csv_and_neither_where_it_is_missing(tmp_path: Path) -> None:
    run = read_run(folders.write_run(tmp_path / "run"))
    given, true = folders.labels()
    np.testing.assert_array_equal(run.labels.correct, given == true)
    np.testing.assert_array_equal(run.labels.wrong, (given != true) & (given != -1))
    (run.path / "labels.csv").write_text("row,given,true\n" + "".join(f"{i},a,\n" for i in range(folders.N)))
    unknown = read_run(run.path).labels
    assert not unknown.correct.any()
    assert not unknown.wrong.any()


def test_the_label_is_predicted_where_both_probabilities_are_the_same(tmp_path: Path) -> None:
    run = read_run(folders.write_run(tmp_path / "run"))
    given, _ = folders.labels()
    labeled = given >= 0
    expected = folders.rows(5, seed=1)["predicted"] == given
    np.testing.assert_array_equal(run.stages["warm-up"].agrees[labeled], expected[labeled])


def test_an_unfinished_run_is_read_as_far_as_it_came(tmp_path: Path) -> None:
    early = read_run(folders.write_run(tmp_path / "early", epochs=5))
    assert (len(early.metrics), early.stages, early.result) == (5, {}, None)
    begun = folders.write_run(tmp_path / "begun", epochs=0)
    (begun / "metrics.jsonl").unlink()
    assert read_run(begun).metrics == []


def test_a_line_that_was_cut_off_is_not_an_epoch(tmp_path: Path) -> None:
    path = folders.write_run(tmp_path / "run", epochs=5)
    text = (path / "metrics.jsonl").read_text()
    (path / "metrics.jsonl").write_text(text[:-30])
    assert [line["epoch"] for line in read_run(path).metrics] == [1, 2, 3, 4]


def write(name: str, text: str) -> Callable[[Path], object]:
    return lambda path: (path / name).write_text(text)


def truncate(name: str) -> Callable[[Path], object]:
    return lambda path: (path / name).write_bytes((path / name).read_bytes()[:-100])


def remove(name: str) -> Callable[[Path], object]:
    return lambda path: (path / name).unlink()


def other_rows(**changes: object) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        values = {key: np.asarray(value) for key, value in (folders.rows(20, seed=2) | changes).items()}
        folders.write_rows(path / "rows-main.safetensors", 30, {k: v for k, v in values.items() if v.ndim})

    return damage


@pytest.mark.parametrize(
    ("damage", "file", "words"),
    [
        (remove("config.toml"), "config.toml", "is not a run"),
        (write("config.toml", "[data"), "config.toml", "not valid TOML"),
        (write("config.toml", "[data]\n"), "config.toml", "no table [noise]"),
        (remove("noise.json"), "noise.json", "missing"),
        (write("noise.json", "{"), "noise.json", "not valid JSON"),
        (write("noise.json", '"text"'), "noise.json", "expected an object with kind"),
        (write("noise.json", '{"kind": "none"}'), "noise.json", "lacks rate"),
        (remove("labels.csv"), "labels.csv", "missing"),
        (write("labels.csv", ""), "labels.csv", "expected row,given"),
        (write("labels.csv", "row,label\n0,a\n"), "labels.csv", "expected row,given"),
        (write("labels.csv", "row,given\n0,a\n2,a\n"), "labels.csv", "row 1 was expected"),
        (write("labels.csv", "row,given\n0,a\n1"), "labels.csv", "row 1 was expected"),
        (write("labels.csv", "row,given\n0,a\n"), "rows-main", "labels.csv has 1 rows"),
        (write("metrics.jsonl", '{"epoch": 1}\n'), "metrics.jsonl, line 1", "lacks stage, images"),
        (write("metrics.jsonl", "{}\n"), "metrics.jsonl is damaged: line 1", "whole number 'epoch'"),
        (write("metrics.jsonl", "nonsense\n"), "metrics.jsonl is damaged: line 1", "not valid JSON"),
        (write("metrics.jsonl", json.dumps(folders.epoch(2) | {"test": 5}) + "\n"), "line 1", "test is 5"),
        (
            write(
                "metrics.jsonl", json.dumps(folders.epoch(2) | {"test": {"raw": 1, "ema": 1, "mirrored": "x"}}) + "\n"
            ),
            "line 1",
            "expected numbers",
        ),
        (write("metrics.jsonl", json.dumps(folders.epoch(2) | {"flop": "x"}) + "\n"), "line 1", "must be numbers"),
        (write("metrics.jsonl", json.dumps(folders.epoch(2) | {"selection": 1}) + "\n"), "line 1", "selection is 1"),
        (write("result.json", "[]"), "result.json", "expected an object"),
        (truncate("rows-main.safetensors"), "rows-main.safetensors", "damaged"),
        (write("rows-main.safetensors", ""), "rows-main.safetensors", "damaged"),
        (other_rows(confidence=0), "rows-main.safetensors", "confidence"),
        (other_rows(confidence=np.full(folders.N, np.nan)), "rows-main.safetensors", "not probabilities"),
        (other_rows(given_label_confidence=np.full(folders.N, 7.0)), "rows-main.safetensors", "not probabilities"),
        (other_rows(predicted=np.zeros((folders.N, 2))), "rows-main.safetensors", "predicted has shape [1000, 2]"),
        (lambda path: (path / "labels.csv").write_bytes(b"\xff\xfe"), "labels.csv", "cannot be read"),
        (shutil.rmtree, "run", "expected a folder"),
    ],
)
def test_a_damaged_folder_is_an_error_that_names_the_file(
    tmp_path: Path, damage: Callable[[Path], object], file: str, words: str
) -> None:
    path = folders.write_run(tmp_path / "run")
    damage(path)
    with pytest.raises(UserError) as caught:
        read_run(path)
    assert file in str(caught.value)
    assert words in str(caught.value)


def test_the_report_needs_no_torch() -> None:
    code = "import sys, pars.report; print([m for m in ('torch', 'matplotlib.pyplot') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
