"""Folders that may not be written: refused in one line with nothing changed; what only reads works there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from privileges import ordinary_rights
from run.helpers import snapshot

from cli.helpers import DIGITS, message, pars
from pars.bench.ledger import check_appendable
from pars.errors import UserError


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, digits_run: Path, unfinished_run: Path) -> Iterator[Path]:
    """A table, its fit, runs: all read-only."""
    folder = tmp_path_factory.mktemp("read-only") / "here"
    folder.mkdir()
    rows = (f"{2 * (row % 2) + row % 7 / 7:.3f},{row % 5},card {row % 9},{'ab'[row % 2]}\n" for row in range(80))
    (folder / "rows.csv").write_text("u,v,body,label\n" + "".join(rows))
    fit = ("fit", folder / "rows.csv", "--label", "label", "--features", "u", "v", "--method", "ce", "--no-baseline")
    assert pars(*fit, "--out", folder / "fit") == 0
    shutil.copytree(digits_run, folder / "run")
    shutil.copytree(unfinished_run, folder / "unfinished")
    every = [folder, *folder.rglob("*")]
    for path in every:
        path.chmod(path.stat().st_mode & ~0o222)
    yield folder
    for path in every:
        path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.parametrize(
    "command",
    [
        "fit rows.csv --label label --features u v --method ce --out new",
        "fit rows.csv --label label --features u v --method ce --no-baseline --out fit",
        "fit rows.csv --label label --features u v --method wann --out new/below",
        "selftest rows.csv --label label --features u v --method ce --out new",
        f"train {' '.join(DIGITS)} --out new",
        f"train {' '.join(DIGITS)}",
        "resume unfinished",
        f"compare --methods ce,elr {' '.join(DIGITS)} --out new",
        "encode rows.csv x.npz --text body --encoder tfidf",
        "encode rows.csv x --text body --encoder tfidf",
        "bench report --ledger rows.csv --markdown r.md",
        "bench table1 --scale smoke --rows ce --cols cifar10-sym-50 --seeds 1",
        "audit fit",
        "audit run",
        "review fit --export",
        "review fit --no-open",
        "report fit report.html",
        "predict fit rows.csv --out p.csv",
        "inspect run",
        "augment-preview digits views.png",
        "demo --epochs 4 --out new",
    ],
)
def test_what_writes_is_refused(
    command: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    before = snapshot(here)
    capsys.readouterr()
    with ordinary_rights():
        assert pars(*command.split()) == 2
    words = command.split()
    assert f"pars {words[0]}: " in message(capsys).splitlines()[-1]
    assert snapshot(here) == before


@pytest.mark.parametrize(
    "command",
    ["predict fit rows.csv", "evaluate fit rows.csv", "audit fit --out {free}/audit", "report fit {free}/report.html",
     "inspect run --plots {free}/plots", "resume run", "encode rows.csv {free}/x.npz --text body --encoder tfidf"],
)  # fmt: skip
def test_what_reads_works(command: str, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    before = snapshot(here)
    with ordinary_rights():
        assert pars(*command.format(free=tmp_path).split()) == 0
    assert snapshot(here) == before


def test_a_ledger_that_cannot_be_written_is_named_before_the_work(here: Path, tmp_path: Path) -> None:
    with ordinary_rights(), pytest.raises(UserError, match="cannot be written"):
        check_appendable(here / "below" / "ledger.jsonl")
    check_appendable(tmp_path / "below" / "ledger.jsonl")
    assert list(tmp_path.iterdir()) == []
