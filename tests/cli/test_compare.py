"""`pars compare`: the table and its files, the same command again, and what is refused."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from run.helpers import snapshot

from cli.helpers import one_document, pars, process, refused
from pars import run
from pars.methods import PARS, Supervised

DIGITS = ("--data.limit", "200", "--model.name", "linear", "--data.holdout", "0.1")
NOISE = ("--noise.kind", "symmetric", "--noise.rate", "0.5", "--seed", "1")
SMALL = ("compare", *DIGITS, *NOISE, "--methods", "ce,pars", "--budget", "1e-8")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compare") / "out"
    assert pars(*SMALL, "--lr", "pars=0.2", "--search-lr", "0.05,0.1", "--search-share", "0.7", "--out", out) == 0
    return out


def test_each_method_has_a_run_folder_and_the_files_are_there(compared: Path) -> None:
    names = {path.name for path in compared.iterdir()}
    assert names == {"ce", "pars", "search", "search.jsonl", "compare.json", "curves.csv", "accuracy-over-flop.svg"}
    configs = {name: run.open_run(compared / name)[1] for name in ("ce", "pars")}
    assert configs["pars"].train.lr == 0.2  # given
    assert configs["ce"].train.lr in (0.05, 0.1)  # searched
    assert not (compared / "search" / "pars").exists()
    assert configs["ce"].data == configs["pars"].data
    assert configs["ce"].views == configs["pars"].views
    assert {config.seed for config in configs.values()} == {1}


def test_the_same_command_trains_nothing_again_and_prints_the_same(
    compared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(compared)
    again = (*SMALL, "--lr", "pars=0.2", "--search-lr", "0.05,0.1", "--search-share", "0.7", "--out", compared)
    capsys.readouterr()
    assert pars(*again, "--json") == 0
    assert one_document(capsys.readouterr().out) == json.loads((compared / "compare.json").read_text())
    assert pars(*again) == 0
    words = capsys.readouterr().out.split()
    assert [word for word in words if word in ("ce", "pars", "EMA", "held-out")][:4] == [
        "EMA",
        "held-out",
        "ce",
        "pars",
    ]
    assert snapshot(compared) == before


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--methods", "ce,parz"], "unknown method 'parz'; did you mean 'pars'? there are: pars, "),
        (["--methods", "ce,ce"], "--methods is 'ce,ce', expected names separated by commas, each once"),
        (["--methods", ""], "--methods is ''"),
        (["--preset", "digit"], "unknown preset 'digit'"),
        (["--budget", "-1"], "train.budget is -1.0, expected PFLOP"),
        (["--budget", "nan"], "train.budget is nan, expected PFLOP"),
        (["--budget", "1e-10"], "ce: train.budget is 1e-10 PFLOP, but Supervised needs at least"),
        (["--budget", "much"], "argument --budget: invalid float value: 'much'"),
        (["--lr", "elr=0.1"], "--lr elr=0.1: 'elr' is none of the methods ce, pars; expected METHOD=RATE"),
        (["--lr", "ce=fast"], "'fast' is no learning rate, expected a number above 0"),
        (["--search-lr", "0.1,-1"], "--search-lr 0.1,-1: '-1' is no learning rate"),
        (["--search-lr", "0.1", "--search-share", "2"], "--search-share is 2.0, expected a share above 0"),
        (["--search-lr", "0.1,0.10000001"], "--search-lr 0.1,0.10000001: 0.1 and 0.10000001 are too close together"),
        (["--method.lambda-S", "0.5"], "ce: unknown flag --method.lambda-S"),  # cross-entropy has none
        (["--ce.lambda-S", "0.5"], "ce: unknown flag --method.lambda-S"),
        (["--pars.lambda-S", "-1"], "method.lambda_S is -1.0"),
        (["--elr.momentum", "0.5"], "--elr.momentum"),  # is not compared
        (["--bogus", "3"], "--bogus"),
    ],
)
def test_a_wrong_setting_is_named_and_nothing_is_written(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refused([*SMALL, "--out", tmp_path / "out", *flags], tmp_path, capsys)


def test_a_method_has_flags_of_its_own(tmp_path: Path) -> None:
    assert pars(*SMALL, "--pars.tau", "0.7", "--pars.no-pseudo", "--ce.loss=mae", "--out", tmp_path) == 0
    methods = [run.open_run(tmp_path / name)[1].method for name in ("ce", "pars")]
    assert methods[0] == Supervised(loss="mae")
    assert isinstance(methods[1], PARS)
    assert (methods[1].tau, methods[1].pseudo) == (0.7, False)


def test_a_folder_that_holds_something_else_is_left_alone(
    compared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused([*SMALL, "--lr", "ce=0.1", "--seed", "2", "--out", compared], compared, capsys)
    assert "compare.json is of a comparison with seed = 1, not 2 as asked for; choose another --out" in said
    said = refused([*SMALL, "--lr", "ce=0.7", "--out", compared], compared, capsys)
    assert "ce holds a run with train.lr = " in said
    (tmp_path / "pars").mkdir()
    (tmp_path / "pars" / "mine.txt").write_text("mine")
    assert "is not empty and not a run" in refused([*SMALL, "--out", tmp_path], tmp_path, capsys)


def test_it_can_be_interrupted_and_goes_on(tmp_path: Path) -> None:
    args = ("compare", *DIGITS, *NOISE, "--methods", "ce,warmup", "--train.epochs", "400", "--out", tmp_path)
    running = process(*args)
    assert running.stderr is not None
    assert any("epoch 2 " in line for line in running.stderr)  # reads until then
    running.send_signal(signal.SIGINT)
    said = running.stderr.read()
    assert running.wait(60) == 130
    assert "Run the same command again to resume" in said
    assert not (tmp_path / "ce" / "result.json").exists()
    assert (tmp_path / "ce" / "checkpoint.safetensors").exists()
