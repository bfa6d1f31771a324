"""`pars evaluate` and `pars predict`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from cli.helpers import NAMES, message, one_document, pars, process, write_features
from pars import data, run

Y = np.arange(60) % 3


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_predictions_are_csv_by_class_name(
    features_run: Path, features_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pars("predict", features_run, features_file) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("row,label,confidence\n")
    rows = rows_of(out)
    assert [row["row"] for row in rows] == [str(i) for i in range(30)]  # of x_test
    assert [row["label"] for row in rows] == NAMES[Y[:30]].tolist()
    inputs = np.load(features_file)["x_test"]
    expected = run.load_run(features_run).predict_proba(inputs).amax(dim=1).numpy()
    np.testing.assert_allclose([float(row["confidence"]) for row in rows], expected, atol=1e-6)


def test_predictions_as_json_and_into_a_file(
    features_run: Path, features_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pars("predict", features_run, features_file, "--json") == 0
    rows = one_document(capsys.readouterr().out)
    assert [(row["row"], row["label"]) for row in rows] == list(enumerate(NAMES[Y[:30]].tolist()))
    assert all(1 / 3 <= row["confidence"] <= 1 for row in rows)
    assert pars("predict", features_run, features_file, "--json", "--out", tmp_path / "p.json") == 0
    assert capsys.readouterr().out == ""
    assert json.loads((tmp_path / "p.json").read_text()) == rows
    assert pars("predict", features_run, features_file, "--out", tmp_path / "p.csv") == 0
    assert [row["label"] for row in rows_of((tmp_path / "p.csv").read_text())] == [row["label"] for row in rows]


def test_rows_need_no_labels_to_be_predicted(
    features_run: Path, features_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = np.load(features_file)["x"]
    np.save(tmp_path / "rows.npy", inputs)
    np.savez(tmp_path / "rows.npz", x=inputs)
    np.savez(tmp_path / "other.npz", x=inputs, y=np.full(60, "fox"))  # labels that the run does not know
    np.savez(tmp_path / "odd.npz", x=inputs, y=np.full(7, 0.5), classes=np.array(["", ""]))  # that no run knows
    for name in ("rows.npy", "rows.npz", "other.npz", "odd.npz"):
        assert pars("predict", features_run, tmp_path / name) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert [row["label"] for row in rows_of(out)] == NAMES[Y].tolist()


def test_published_rows_are_predicted_by_name(digits_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pars("predict", digits_run, "digits") == 0
    labels = [row["label"] for row in rows_of(capsys.readouterr().out)]
    assert pars("evaluate", digits_run, "digits", "--json") == 0
    result = one_document(capsys.readouterr().out)
    true = data.load_rows("digits").labels
    assert len(labels) == len(true) == result["rows"]
    assert result["accuracy"] == pytest.approx(100 * np.mean(np.array(labels).astype(int) == true))
    assert result["accuracy"] == json.loads((digits_run / "result.json").read_text())["test"]["ema"]["last"]


def test_evaluation_counts_per_class(
    features_run: Path, features_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.load(features_file)["x"]
    claimed = NAMES[Y].copy()
    claimed[:6] = ["dog", "dog", "eel", "cat", "", ""]  # rows 0 and 3 are cats: one wrong; two do not count
    write_features(tmp_path / "some.npz", x=x, y=claimed, x_test=None, y_test=None)
    assert pars("evaluate", features_run, tmp_path / "some.npz", "--json") == 0
    result = one_document(capsys.readouterr().out)
    assert result["rows"] == 58
    assert result["accuracy"] == pytest.approx(100 * 57 / 58)
    assert result["per_class"] == {"cat": 100.0, "dog": pytest.approx(100 * 19 / 20), "eel": 100.0}
    assert pars("evaluate", features_run, tmp_path / "some.npz") == 0
    assert capsys.readouterr().out.startswith("accuracy 98.28 % of 58 rows\n")


def test_labels_are_compared_by_name_not_by_number(
    features_run: Path, features_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a file of dogs and eels alone "dog" would be class 0, which is the run's cat."""
    x = np.load(features_file)["x"]
    some = Y > 0
    write_features(tmp_path / "some.npz", x=x[some], y=NAMES[Y[some]], x_test=None, y_test=None)
    assert pars("evaluate", features_run, tmp_path / "some.npz", "--json") == 0
    result = one_document(capsys.readouterr().out)
    assert (result["accuracy"], set(result["per_class"])) == (100.0, {"dog", "eel"})


def test_a_test_set_of_one_class_is_evaluated(
    features_run: Path, features_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.load(features_file)["x"]
    write_features(tmp_path / "eels.npz", x=x[Y == 2], y=NAMES[Y[Y == 2]], x_test=None, y_test=None)
    assert pars("evaluate", features_run, tmp_path / "eels.npz", "--json") == 0
    assert one_document(capsys.readouterr().out)["per_class"] == {"eel": 100.0}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y_test": np.array([*NAMES[Y[:29]], "fox"])}, "y_test: row 29 is 'fox', expected one of cat, dog, eel"),
        ({"y_test": np.array([0, 1, 2, 7] + [0] * 26), "y": None}, "row 3 is 7, expected 0..2"),
        ({"y_test": None}, "has no labels to compare with; `pars predict` needs none"),
        ({"y_test": np.full(30, "")}, "has no labels to compare with"),
        ({"y_test": NAMES[Y[:7]]}, "one label per row"),
        ({"x_test": np.zeros((30, 9), np.float32)}, "rows have shape [9], those of training had [5]"),
        ({"x_test": np.full((30, 5), np.inf)}, "row 0, column 0 is inf"),
    ],
)
def test_rows_that_cannot_be_evaluated_are_named(
    changes: dict[str, object], words: str, features_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_features(tmp_path / "bad.npz", **changes)
    assert pars("evaluate", features_run, file) == 2
    said = message(capsys)
    assert words in said
    assert "bad.npz" in said


def test_published_labels_that_a_run_does_not_know_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "two.npz", x=rng.integers(0, 17, (20, 1, 8, 8), dtype=np.uint8), y=np.arange(20) % 2)
    train = ("train", "--data.name", tmp_path / "two.npz", "--train.epochs", "1", "--model.name", "linear")
    assert pars(*train, "--out", tmp_path / "run") == 0
    capsys.readouterr()
    assert pars("evaluate", tmp_path / "run", "digits") == 2
    assert "digits has label 9, the run knows classes 0 to 1" in message(capsys)


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_run_that_cannot_predict_says_why(
    command: str, unfinished_run: Path, features_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, source, words in (
        (tmp_path / "nope", "digits", "nope is not a run"),
        (tmp_path, "digits", "config.toml is missing"),
        (unfinished_run, "digits", f"is not finished: {unfinished_run / 'model.safetensors'} is missing; `pars resume"),
        (features_run, "nope.npz", "'nope.npz' is neither a known data set nor a path that exists"),
        (features_run, str(features_run / "config.toml"), "config.toml: cannot read .toml"),
    ):
        assert pars(command, folder, source) == 2
        assert words in message(capsys)


def test_predictions_go_nowhere_they_cannot(
    features_run: Path, features_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pars("predict", features_run, features_file, "--out", tmp_path) == 2
    assert "is a folder, expected a file to write" in message(capsys)
    assert pars("predict", features_run, features_file, "--out", tmp_path / "no" / "p.csv") == 2
    assert f"the folder {tmp_path / 'no'} does not exist" in message(capsys)
    assert list(tmp_path.iterdir()) == []


def test_predictions_go_into_the_device_they_are_sent_to(
    features_run: Path, features_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "p.csv.part").write_text("mine")
    for name in ("null", "p.csv"):
        assert pars("predict", features_run, features_file, "--out", tmp_path / name) == 0
    assert Path("/dev/null").is_char_device()
    assert (tmp_path / "null").is_symlink()
    assert (tmp_path / "p.csv.part").read_text() == "mine"


def test_a_reader_that_leaves_early_gets_no_complaint(features_run: Path, features_file: Path) -> None:
    predicting = process("predict", features_run, features_file)
    assert predicting.stdout is not None
    assert predicting.stderr is not None
    predicting.stdout.close()
    assert predicting.stderr.read() == ""
    assert predicting.wait(timeout=60) == 141
