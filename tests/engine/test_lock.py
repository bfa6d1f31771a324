"""One process per run folder."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pars.engine.lock import locked
from pars.errors import UserError

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
    with pytest.raises(UserError, match="cannot be trained in"), locked(tmp_path / "nope" / "lock"):
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
