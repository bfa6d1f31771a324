"""The files of a run: whole or not at all."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pars.engine import RunFolder, write_atomically, write_json, write_text
from pars.errors import UserError

FULL = Path("/dev/full")


def half_then(error: BaseException) -> Callable[[Path], None]:
    def write(beside: Path) -> None:
        beside.write_text("half of it")
        raise error

    return write


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt(), OSError(errno.EIO, "disk")], ids=repr)
def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "x"
    write_text(path, "old")
    with pytest.raises(type(error)):
        write_atomically(path, half_then(error))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_reported_and_leaves_the_old_file(tmp_path: Path, code: int) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"old": True})
    with pytest.raises(UserError, match=r"no space left to write .*x\.json; what was there before is intact"):
        write_atomically(path, half_then(OSError(code, "full")))
    assert json.loads(path.read_text()) == {"old": True}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
def test_a_disk_that_is_really_full_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_text(path, "old")
    (tmp_path / "x.part").symlink_to(FULL)
    with pytest.raises(UserError, match="no space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    folder = RunFolder(tmp_path)
    folder.metrics.symlink_to(FULL)
    with pytest.raises(UserError, match=r"no space left to write .*metrics\.jsonl"):
        folder.append_metrics({"epoch": 1})


def test_a_file_left_half_written_by_a_kill_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "x.part").write_text("half of it, and much longer than what comes next")
    write_text(tmp_path / "x", "whole")
    assert (tmp_path / "x").read_text() == "whole"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


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
