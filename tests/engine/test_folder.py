"""The files of a run: whole or not at all, and one process per folder."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pars.engine import RunFolder, locked, write_atomically
from pars.errors import Diverged, UserError

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
    RunFolder(tmp_path).truncate_metrics(0)
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
    folder.truncate_metrics(2)
    folder.append_metrics({"epoch": 3, "again": True})
    assert folder.read_metrics() == [{"epoch": 1}, {"epoch": 2}, {"epoch": 3, "again": True}]


def test_epochs_after_the_checkpoint_are_forgotten(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for epoch in range(1, 6):
        folder.append_metrics({"epoch": epoch})
    folder.truncate_metrics(3)
    assert [line["epoch"] for line in folder.read_metrics()] == [1, 2, 3]
    folder.truncate_metrics(0)
    assert folder.read_metrics() == []


def test_a_folder_that_holds_a_run_is_not_taken(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a" / "b")
    with folder.begin({}):
        pass
    with folder.begin({folder.config: ""}):  # nothing was written yet
        pass
    with pytest.raises(UserError, match=r"already holds a run; `pars resume"):
        folder.check_free()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(UserError, match="is a file, expected a folder"):
        RunFolder(tmp_path / "x").check_free()
    with pytest.raises(UserError, match=r"cannot make the run folder .*y: .*x is not a folder"):
        RunFolder(tmp_path / "x" / "y").check_free()


def test_a_lock_left_by_a_kill_does_not_make_a_folder_a_run(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    RunFolder(tmp_path).check_free()
    (tmp_path / "other").touch()
    with pytest.raises(UserError, match="is not empty and not a run"):
        RunFolder(tmp_path).check_free()


def test_a_process_killed_while_it_began_does_not_block_the_next(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for path in (folder.inputs, folder.labels, tmp_path / ".config.toml.0a1b2c3d.part"):
        path.write_text("of the first")
    with pytest.raises(UserError, match="is not empty and not a run"):
        folder.check_free()  # without a lock these may be anybody's
    (tmp_path / "lock").touch()
    folder.check_free()
    with folder.begin({folder.inputs: "of the second", folder.config: ""}):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml", "inputs.json"]
    assert folder.inputs.read_text() == "of the second"


def test_a_run_begun_by_another_process_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.check_free()
    with RunFolder(tmp_path / "run").begin({folder.config: "theirs"}):
        ours = folder.begin({folder.config: "ours"})
        with pytest.raises(UserError, match="is in use by another process"), ours:
            pass
    with pytest.raises(UserError, match="already holds a run"), folder.begin({folder.config: "ours"}):
        pass
    assert folder.config.read_text() == "theirs"


def test_text_that_utf_8_cannot_hold_is_shown_before_anything_is_made(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "deep" / "run")
    texts = {folder.labels: "row\n0,fine\n1,\ud800bad\n2,fine\n", folder.config: ""}
    with pytest.raises(UserError, match=r"labels.csv would hold '1,\\ud800bad', which"), folder.begin(texts):
        pass
    assert not list(tmp_path.iterdir())


def begun(folder: RunFolder) -> dict[Path, str]:
    return dict.fromkeys((folder.inputs, folder.plan, folder.noise, folder.labels, folder.config), "{}")


def diverge(folder: RunFolder, epoch: int) -> None:
    """After a checkpoint within the first epoch, or after some epochs that were logged."""
    folder.checkpoint.write_text("of some step")
    for number in range(1, epoch):
        folder.append_metrics({"epoch": number})
    raise Diverged("not finite", epoch=epoch)


def test_a_run_that_diverges_in_its_first_epoch_leaves_nothing(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "deep" / "run")
    with pytest.raises(Diverged), folder.begin(begun(folder)):
        diverge(folder, epoch=1)
    assert list(tmp_path.iterdir()) == []


def test_so_it_does_when_it_was_resumed_and_files_of_others_stay(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(KeyboardInterrupt), folder.begin(begun(folder)):
        raise KeyboardInterrupt
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(Diverged), folder.lock():
        diverge(folder, epoch=1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_run_that_diverges_later_keeps_what_it_has(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(Diverged), folder.begin(begun(folder)):
        diverge(folder, epoch=2)
    assert {*tmp_path.iterdir()} == {folder.metrics, folder.checkpoint, *begun(folder)}


def test_a_run_that_failed_after_it_began_is_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "deep" / "run")
    with pytest.raises(KeyboardInterrupt), folder.begin({folder.config: "mine"}):
        raise KeyboardInterrupt
    assert [path.name for path in folder.path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize("line", ["3", "null", "[]", "{}", '{"epoch": "1"}', '{"epoch": true}', "[" * 100_000, "nope"])
def test_a_damaged_log_is_named_and_kept(tmp_path: Path, line: str) -> None:
    folder = RunFolder(tmp_path)
    folder.metrics.write_text('{"epoch": 1}\n' + line + "\n")
    for work in (folder.read_metrics, lambda: folder.truncate_metrics(0)):
        with pytest.raises(UserError, match=r"metrics.jsonl is damaged"):
            work()
    assert line in folder.metrics.read_text()


def test_a_log_that_is_a_folder_or_no_text_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.metrics.write_bytes(b'{"epoch": 1, "stage": "\xff"}\n')
    with pytest.raises(UserError, match=r"metrics.jsonl is damaged"):
        folder.read_metrics()
    folder.metrics.unlink()
    folder.metrics.mkdir()
    with pytest.raises(UserError, match=r"metrics.jsonl is damaged"):
        folder.read_metrics()


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "\ud800"])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot make the run folder"):
        RunFolder(tmp_path / name).check_free()


HOLD = """
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


@contextmanager
def another_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """One that holds the lock until it is killed."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_second_holder_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"):
        with pytest.raises(UserError, match="is in use by another process"), locked(tmp_path / "lock"):
            pass
        assert (tmp_path / "lock").exists()  # the refused one has not taken it away
    with locked(tmp_path / "lock"):
        pass
    assert not list(tmp_path.iterdir())


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with another_process(tmp_path / "lock") as process:
        with pytest.raises(UserError, match=f"{tmp_path} is in use by another process"), locked(tmp_path / "lock"):
            pass
        process.kill()
        process.wait()
        assert (tmp_path / "lock").exists()
        with locked(tmp_path / "lock"):
            pass


def test_a_folder_that_is_not_there_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written to"), locked(tmp_path / "nope" / "lock"):
        pass


def test_a_lock_that_its_holder_has_just_removed_is_not_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between our opening of the file and our locking it, its holder is done and a third process has come first."""
    path, real = tmp_path / "lock", fcntl.flock
    third: list[int] = []

    def late(handle: int, how: int) -> None:
        if not third:
            path.unlink()
            third.append(os.open(path, os.O_RDWR | os.O_CREAT))
            real(third[0], fcntl.LOCK_EX)
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(UserError, match="is in use by another process"), locked(path):
        pass
    os.close(third[0])
    with locked(path):
        pass
