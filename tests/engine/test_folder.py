"""The files of a run: whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pars.engine import RunFolder, write_atomically, write_text
from pars.errors import UserError

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
def test_a_disk_that_is_full_for_metrics_is_reported(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.metrics.symlink_to(FULL)
    with pytest.raises(UserError, match=r"no space left to write .*metrics\.jsonl"):
        folder.append_metrics({"epoch": 1})


def test_a_file_left_half_written_by_a_kill_goes_when_the_run_goes_on(tmp_path: Path) -> None:
    def killed(beside: Path) -> None:
        beside.write_text("half of it")
        beside.rename(tmp_path / beside.name.replace("x", "y"))  # out of reach of the clean-up that a kill prevents
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "x", killed)
    assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / "mine.part").write_text("mine")
    RunFolder(tmp_path).keep_metrics(0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl", "mine.part"]


def test_metrics_are_read_as_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.read_metrics() == []
    lines: list[dict[str, Any]] = [{"epoch": 1, "loss": 0.1 + 0.2}, {"epoch": 2, "stage": "größer"}]
    for line in lines:
        folder.append_metrics(line)
    assert folder.read_metrics() == lines


@pytest.mark.parametrize("cut", ["{", '{"epoch": 3, "losses": {"raw"', '{"epoch": 3}'])
def test_a_line_cut_off_by_a_kill_is_ignored_and_not_continued(tmp_path: Path, cut: str) -> None:
    folder = RunFolder(tmp_path)
    for epoch in (1, 2):
        folder.append_metrics({"epoch": epoch})
    with folder.metrics.open("a") as file:
        file.write(cut)
    assert folder.read_metrics() == [{"epoch": 1}, {"epoch": 2}]
    folder.keep_metrics(2)
    folder.append_metrics({"epoch": 3, "again": True})
    assert folder.read_metrics() == [{"epoch": 1}, {"epoch": 2}, {"epoch": 3, "again": True}]


def test_epochs_after_the_checkpoint_are_forgotten(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for epoch in range(1, 6):
        folder.append_metrics({"epoch": epoch})
    folder.keep_metrics(3)
    assert [line["epoch"] for line in folder.read_metrics()] == [1, 2, 3]
    folder.keep_metrics(0)
    assert folder.read_metrics() == []


def test_a_folder_that_holds_a_run_is_not_taken(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a" / "b")
    folder.create()
    folder.create()  # nothing was written yet
    write_text(folder.config, "")
    with pytest.raises(UserError, match=r"already holds a run; `pars resume"):
        folder.create()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(UserError, match="is a file, expected a folder"):
        RunFolder(tmp_path / "x").create()
    with pytest.raises(UserError, match="cannot make the run folder"):
        RunFolder(tmp_path / "x" / "y").create()
