"""Fit folders of other versions: refused in one line before anything in them is written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli.helpers import pars, refused


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("old") / "rows.csv"
    rows = (f"{2 * (row % 2) + row % 7 / 7:.3f},{row % 5},{'ab'[row % 2]}\n" for row in range(80))
    path.write_text("u,v,label\n" + "".join(rows))
    return path


def fit(table: Path, out: Path) -> tuple[object, ...]:
    return ("fit", table, "--label", "label", "--method", "ce", "--no-baseline", "--out", out)


@pytest.fixture(scope="module")
def fitted(table: Path) -> Path:
    out = table.parent / "fitted"
    assert pars(*fit(table, out)) == 0
    return out


def test_a_fit_of_an_older_format_is_refused_by_every_command(
    fitted: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shutil.copytree(fitted, tmp_path / "fit")
    inputs = out / "robust" / "inputs.json"
    content = json.loads(inputs.read_text())
    del content["format"]
    inputs.write_text(json.dumps(content))
    (out / "preprocessor.json").unlink()  # it had another name
    commands = (fit(table, out), ("audit", out), ("predict", out, table), ("evaluate", out, table), ("inspect", out),
                ("review", out, "--export"), ("report", out, tmp_path / "report.html"))  # fmt: skip
    for command in commands:
        said = refused(command, tmp_path, capsys)
        assert f"{out / 'robust'} was written by an older version of pars: run format 1, this one reads 2" in said


def test_a_fit_without_checksums_is_not_written_over(
    fitted: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shutil.copytree(fitted, tmp_path / "fit")
    (out / "files.json").unlink()
    assert f"{out} was written by an older version of pars, or lost files.json" in refused(
        fit(table, out), tmp_path, capsys
    )


def test_a_review_that_cannot_be_leaves_nothing(
    fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shutil.copytree(fitted, tmp_path / "fit")
    (out / "robust" / "model.safetensors").unlink()
    assert "is not finished" in refused(("review", out, "--export"), tmp_path, capsys)
