"""Flags that mean nothing for the rows, say a thing twice, or are empty: refused or warned of, never passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.helpers import DIGITS, pars, refused, write_features
from cli.test_bad_input import write_pets

FIT = ("--method", "logistic-regression", "--no-baseline")


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    return write_pets(tmp_path / "pets.csv")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--true", "kind"], "'kind' has the given labels and the right ones; expected two columns"),
        (["--true", "weight"], "column 'weight': labels of "),
        (["--features", "weight", "weight"], "features name 'weight' twice"),
        (["--network", "lite0", "--method", "ce"], "network is 'lite0', which trains on images"),
        (["--labels", "pets.csv"], "has no column 'row': expected the labels.csv of a review"),
    ],
)
def test_a_flag_of_fit_is_named(
    flags: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pets(tmp_path / "pets.csv", n=150)
    monkeypatch.chdir(tmp_path)
    args = ("fit", "pets.csv", "--label", "kind", *FIT, *flags, "--out", "out")
    assert words in refused(args, tmp_path, capsys)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--true", "kind"], "has no columns, so true = 'kind' means nothing there"),
        (["--categorical", "kind"], "has no columns, so categorical = ['kind'] means nothing there"),
        (["--unlabeled", "unknown"], "unlabeled = 'unknown' is for tables and folders of images"),
    ],
)
def test_arrays_have_no_columns(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_features(tmp_path / "rows.npz")
    assert words in refused(("fit", file, *FIT, *flags, "--out", tmp_path / "out"), tmp_path, capsys)


def test_a_sign_for_unlabeled_rows_that_none_has_is_said(
    pets: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fit = ("fit", pets, "--label", "kind", *FIT)
    assert pars(*fit, "--unlabeled", "unknown", "--out", tmp_path / "out") == 0
    assert "pets.csv: no label is 'unknown', so every row counts as labeled" in caplog.text


def test_a_folder_that_is_a_dangling_link_is_called_so(
    pets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").symlink_to("nowhere")
    said = refused(("fit", pets, "--label", "kind", *FIT, "--out", tmp_path / "out"), tmp_path, capsys)
    assert f"{tmp_path / 'out'} is a link to something that does not exist" in said


def test_a_table_to_review_that_is_not_there_is_named_before_the_review(
    pets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pars("fit", pets, "--label", "kind", *FIT, "--out", tmp_path / "out") == 0
    args = ("review", tmp_path / "out", "--table", tmp_path / "gone.csv", "--no-open")
    assert f"--table {tmp_path / 'gone.csv'} does not exist" in refused(args, tmp_path, capsys)


def test_an_encoder_for_a_fit_without_one_is_refused(
    pets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pars("fit", pets, "--label", "kind", *FIT, "--out", tmp_path / "out") == 0
    args = ("predict", tmp_path / "out", pets, "--encoder", "python:os:system")
    assert "has no encoder, so python:os:system cannot read the rows" in refused(args, tmp_path, capsys)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--preset", ""], "unknown preset ''"),
        (["--data.text-column", "body"], "data.text_column is 'body', but digits has images, expected a table"),
        (["--train.momentum", "5"], "train.momentum is 5.0, expected a number from 0 up to, not including, 1"),
        (["--train.late-momentum", "1"], "train.late_momentum is 1.0, expected a number from 0 up to"),
    ],
)
def test_a_flag_of_train_is_named(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(("train", *DIGITS, *flags, "--out", tmp_path / "run"), tmp_path, capsys)


@pytest.mark.parametrize("flag", ["--rows", "--cols"])
def test_an_empty_list_of_cells_is_not_a_table_that_is_done(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("bench", "table1", "--scale", "smoke", flag, "", "--out", tmp_path / "ledger.jsonl")
    assert f"{flag} is '', expected some of " in refused(args, tmp_path, capsys)


def test_a_published_set_has_no_columns_to_encode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("encode", "digits", tmp_path / "x.npz", "--encoder", "pixels", "--label", "kind")
    assert "--label means nothing for digits, which has no columns" in refused(args, tmp_path, capsys)
