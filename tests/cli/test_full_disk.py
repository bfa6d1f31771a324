"""A full disk: one message, what was there stays as it was, and a run goes on where it stopped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from run.helpers import snapshot

from cli.helpers import DIGITS, pars, refused, small_disk


@pytest.mark.parametrize("name", ["noise.json", "labels.csv", "config.toml"])
def test_a_full_disk_before_training_leaves_no_half_run(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pars("train", *DIGITS, "--out", tmp_path / "whole") == 0
    with small_disk((tmp_path / "whole" / name).stat().st_size - 1):
        said = refused(("train", *DIGITS, "--out", tmp_path / "run"), tmp_path, capsys)
    assert f"the run in {tmp_path / 'run'} could not be begun, nothing was written: no space left" in said


def test_a_full_disk_while_training_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The checkpoint is 8 KB, the other files of the first epoch are smaller."""
    train = ("train", *DIGITS, "--noise.kind", "symmetric", "--noise.rate", "0.5", "--out")
    assert pars(*train, tmp_path / "whole") == 0
    capsys.readouterr()
    folder = tmp_path / "full"
    with small_disk(6000):
        assert pars(*train, folder) == 2
    said = capsys.readouterr().err
    assert f"no space left to write {folder / 'checkpoint.safetensors'}" in said
    assert f"`pars resume {folder}`" in said
    assert "Traceback" not in said
    assert not list(folder.glob("*.part"))
    assert pars("resume", folder) == 0
    assert snapshot(folder) == snapshot(tmp_path / "whole")


def test_a_full_disk_while_resuming_keeps_the_old_checkpoint(
    unfinished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(unfinished_run, tmp_path / "run")
    before = (folder / "checkpoint.safetensors").read_bytes()
    with small_disk(6000):
        assert pars("resume", folder) == 2
    assert "no space left to write" in capsys.readouterr().err
    assert (folder / "checkpoint.safetensors").read_bytes() == before
    assert pars("resume", folder) == 0
    assert json.loads((folder / "result.json").read_text())["epochs"] == 2


def test_a_full_disk_for_predictions_and_plots(
    features_run: Path, features_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.csv").write_text("old")
    with small_disk(50):
        said = refused(("predict", features_run, features_file, "--out", tmp_path / "p.csv"), tmp_path, capsys)
        assert f"no space left to write {tmp_path / 'p.csv'}" in said
        assert "resume" not in said  # there is nothing to go on with
    assert pars("inspect", features_run, "--plots", tmp_path / "plots") == 0
    with small_disk(50):
        said = refused(("inspect", features_run, "--plots", tmp_path / "plots"), tmp_path, capsys)
    assert str(tmp_path / "plots") in said
