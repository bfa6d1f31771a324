"""`pars fit` and `pars selftest` on a table whose right labels are known."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run.helpers import snapshot
from sklearn.datasets import load_wine

from cli.helpers import one_document, pars, refused

NAMES = np.array(["barolo", "grignolino", "barbera"])


@pytest.fixture(scope="module")
def wines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """178 wines with a quarter of the labels wrong, the right ones in a column of their own."""
    x, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    given = np.where(rng.random(len(y)) < 0.25, (y + rng.integers(1, 3, len(y))) % 3, y)
    path = tmp_path_factory.mktemp("wines") / "wines.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["alcohol", "malic", "ash", "phenols", "color", "proline", "label", "right"])
        for row, a, b in zip(x[:, [0, 1, 2, 6, 9, 12]].tolist(), NAMES[given], NAMES[y], strict=True):
            writer.writerow([*row, a, b])
    return path


@pytest.fixture(scope="module")
def fitted(wines: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fit") / "out"
    assert pars("fit", wines, "--label", "label", "--true", "right", "--out", out) == 0
    return out


def test_a_fit_leaves_both_runs_the_list_and_the_result(fitted: Path, wines: Path) -> None:
    told = json.loads((fitted / "fit.json").read_text())
    lines = sorted(csv.DictReader((fitted / "audit" / "audit.csv").open()), key=lambda line: int(line["index"]))
    rows = list(csv.DictReader(wines.open()))
    assert len(lines) == len(rows) == told["rows"]
    wrong = np.array([row["label"] != row["right"] for row in rows])
    flagged = np.array([line["is_label_issue"] == "True" for line in lines])
    assert flagged[wrong].mean() > 0.8
    assert flagged[~wrong].mean() < 0.1
    assert [line["given_label"] for line in lines] == [row["label"] for row in rows]
    judged, right = told["held_out"], told["clean"]
    assert judged["rows"] == right["rows"] == round(0.1 * len(rows))  # half of the held-out rows choose
    assert judged["low"] <= judged["gain"] <= judged["high"]
    assert right["robust"] > judged["robust"]  # a quarter of the labels that judge are wrong themselves
    assert (fitted / "plain" / "model.safetensors").exists()


def test_plain_training_costs_what_the_other_run_did(fitted: Path) -> None:
    robust, plain = (json.loads((fitted / name / "result.json").read_text())["flop"] for name in ("robust", "plain"))
    assert plain == pytest.approx(robust, rel=0.02)


def test_the_same_command_again_only_tells(fitted: Path, wines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(fitted / "robust") | snapshot(fitted / "plain")
    capsys.readouterr()
    assert pars("fit", wines, "--label", "label", "--true", "right", "--out", fitted, "--json") == 0
    told = one_document(capsys.readouterr().out)
    assert told["held_out"] == json.loads((fitted / "fit.json").read_text())["held_out"]
    assert snapshot(fitted / "robust") | snapshot(fitted / "plain") == before


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--label", "right"], "holds another fit"),
        (["--label", "color"], "labels of 132 classes for 178 rows"),
        (["--label", "label", "--true", "right", "--seed", "1"], "holds another fit"),
        (["--label", "lable"], "'lable'"),
        ([], "(pars fit: --label COLUMN); its columns are"),
        (["--label", "label", "--text", "label"], "'label' is to be learned from and a label"),
        (["--label", "label", "--method", "parse"], "unknown method 'parse'; did you mean 'pars'? there are: "),
        (["--label", "label", "--method", "DM-AugDesc-WS-WAW"], "did you mean 'augdesc-ws-waw'? there are: "),
        (["--label", "label", "--method", "WANN"], "unknown method 'WANN'; did you mean 'wann'? there are: "),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(
    flags: list[str], said: str, fitted: Path, wines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(["fit", wines, *flags, "--out", fitted], fitted, capsys)


def test_flipped_labels_are_found_and_mended(wines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    columns: list[Any] = ["--label", "right", "--features", "alcohol", "malic", "ash", "phenols", "color", "proline"]
    assert pars("selftest", wines, *columns, "--flip", "0.15", "--out", tmp_path / "out", "--json") == 0
    told = one_document(capsys.readouterr().out)
    assert told["flipped"] == round(0.15 * 178)
    assert told["auroc"] > 0.95
    assert told["recall"] > 0.8
    assert told["precision"] > 0.8
    assert told["restored"] > 0.8
    assert told["robust"] > 0.85


def test_nothing_or_everything_flipped_is_refused(
    wines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for share in ("0", "1", "0.001"):
        args = ["selftest", wines, "--label", "right", "--flip", share, "--out", tmp_path / "out"]
        assert "flip" in refused(args, tmp_path, capsys)


def test_a_table_that_has_changed_is_not_answered_with_what_was_learned_before(
    wines: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = wines.read_text()
    try:
        right = before.rsplit(",", 1)[0] + ",barolo\n"
        for changed in (before.replace("barolo", "nebbiolo", 1), before.replace("14.23", "14.24", 1), right):
            assert changed != before
            wines.write_text(changed)
            args = ["fit", wines, "--label", "label", "--true", "right", "--out", fitted]
            assert "wines.csv has changed since" in refused(args, fitted, capsys)
    finally:
        wines.write_text(before)


@pytest.mark.parametrize(
    ("command", "rows", "said"),
    [
        ("fit", "1.5,x 3,x 4,x 9,x", "column 'y' has labels of one class, 'x'"),
        ("selftest", "1.5,x 3,x 4,x 9,x", "column 'y' has labels of one class, 'x'"),
        ("fit", "1.5, 3, 4, 9,", "column 'y' has no labels, expected some"),
        ("fit", "0,x 1.5,z", "2 rows with a label are too few to hold some out"),
    ],
    ids=["one class", "selftest of one class", "no labels", "two rows"],
)
def test_too_little_to_learn_from_is_said_with_the_table_and_its_column(
    command: str, rows: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "few.csv"
    table.write_text("a,y\n" + rows.replace(" ", "\n") + "\n")
    flip = ["--flip", "0.5"] if command == "selftest" else []
    capsys.readouterr()
    assert pars(command, table, "--label", "y", "--unlabeled", "", "--out", tmp_path / "out", *flip) == 2
    assert said in capsys.readouterr().err
    table.write_text("a,y\n" + "".join(f"{n * 1.5},{'xz'[n % 2]}\n" for n in range(40)))
    capsys.readouterr()
    folder = tmp_path / ("mended" if "too few" in said else "out")  # rows that were read are not replaced
    assert pars(command, table, "--label", "y", "--unlabeled", "", "--out", folder, *flip) == 0


def test_rows_to_test_on_that_have_no_label_do_not_count(
    wines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *lines = wines.read_text().splitlines()
    unknown = [line.rsplit(",", 2)[0] + ",," for line in lines[20:30]]
    test = tmp_path / "test.csv"
    test.write_text("\n".join([head, *lines[:20], *unknown]) + "\n")
    flags: list[Any] = ["--label", "label", "--unlabeled", "", "--features", "alcohol", "proline", "color"]
    capsys.readouterr()
    assert pars("fit", wines, *flags, "--test", test, "--out", tmp_path / "out", "--json") == 0
    assert one_document(capsys.readouterr().out)["clean"]["rows"] == 20
