"""Help, versions and the demo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run.helpers import snapshot

import pars as package
from cli.helpers import one_document, pars
from pars import run
from pars.classic import CLASSIC
from pars.cli.main import COMMANDS
from pars.methods import REGISTRY


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert pars(command, "--help") == 0
    out, err = capsys.readouterr()
    assert f"usage: pars {command}" in out
    assert ("--json" in out) == (command != "completion")  # which prints a script
    assert err == ""


def test_help_of_training_names_presets_methods_and_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert pars("train", "--help") == 0
    out = capsys.readouterr().out
    joined = "".join(out.split()).replace("│", "")
    assert all(name in joined for name in (*run.PRESETS, *REGISTRY))
    for flag in ("--data.name", "--noise.rate", "--model.width", "--views.strong", "--method.tau", "--train.epochs"):
        assert flag in out


def test_help_of_training_shows_the_flags_of_the_method_that_was_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert pars("train", "--method", "ce", "--help") == 0
    out = capsys.readouterr().out
    assert "--method.loss" in out
    assert "--method.lambda-S" not in out


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert pars("--version") == 0
    assert capsys.readouterr().out.strip() == package.__version__


def test_the_command_alone_shows_its_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert pars() == 2
    assert "usage: pars COMMAND" in capsys.readouterr().out


def test_an_unknown_command_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert pars("tran") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "unknown command 'tran'" in err
    assert all(command in err for command in COMMANDS)


def test_the_demo_compares_three_trainings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    assert pars("demo", "--epochs", "1", "--json", "--out", out) == 0
    printed, err = capsys.readouterr()
    accuracies = one_document(printed)
    assert {method: set(numbers) for method, numbers in accuracies.items()} == {
        "ce": {"best", "last", "last10"},
        "warmup": {"best", "last", "last10"},
        "pars": {"best", "last", "last10"},
    }
    for method, numbers in accuracies.items():
        result = json.loads((out / method / "result.json").read_text())["test"]["ema"]
        assert numbers == {key: result[key] for key in numbers}
        noise = json.loads((out / method / "noise.json").read_text())
        assert (noise["kind"], noise["rate"]) == ("symmetric", 0.5)
    noisy = {(out / method / "labels.csv").read_text() for method in accuracies}
    assert len(noisy) == 1  # all three saw the same labels
    assert (out / "demo.svg").exists()
    assert str(out / "demo.svg") in err

    before = snapshot(out)
    assert pars("demo", "--epochs", "1", "--out", out) == 2
    assert "is not empty" in capsys.readouterr().err
    assert snapshot(out) == before


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--rate", "2"), "noise.rate must be between 0 and 1"),
        (("--epochs", "0"), "train.epochs is 0"),
        (("--rate", "half"), "--rate"),
        (("--bogus",), "--bogus"),
    ],
)
def test_a_mistake_in_the_demo_leaves_nothing_behind(
    flags: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert pars("demo", *flags) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_demo_does_not_write_into_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert pars("demo", "--out", tmp_path / "file") == 2
    assert "is a file, expected a folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


def test_methods_as_json_have_a_year_or_null(capsys: pytest.CaptureFixture[str]) -> None:
    assert pars("methods", "--json") == 0
    years = {line["name"]: line["year"] for line in json.loads(capsys.readouterr().out)}
    assert years.keys() == REGISTRY.keys() | CLASSIC.keys()
    assert years["ce"] is None  # nobody's method
    assert years["pars-paper"] == 2022
    assert all(year is None or 1990 < year < 2030 for year in years.values())
