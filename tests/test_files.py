"""Files of a user's: whole or not at all, and never another one than was meant."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import SafetensorError

from pars.errors import UserError
from pars.files import NoSpace, expanded, guarded, remove_halves, write_atomically, write_text

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
    write_text(path, "old")
    with pytest.raises(NoSpace, match=r"no space left to write .*x\.json; what was there before is intact$"):
        write_atomically(path, half_then(OSError(code, "full")))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_names_the_file_that_was_meant(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_text(tmp_path / "no" / "x", "new")
    assert caught.value.filename == str(tmp_path / "no" / "x")


def test_files_that_only_look_like_ours_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "x.part").write_text("mine")
    write_text(tmp_path / "x", "new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"x": "new", "x.part": "mine"}


def test_a_name_as_long_as_names_may_be_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    write_text(path, "whole")
    assert path.read_text() == "whole"


def test_two_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "x"

    def first(beside: Path) -> None:
        beside.write_text("first")
        write_text(path, "second")

    write_atomically(path, first)
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link, target = tmp_path / "link", tmp_path / "elsewhere" / "target"
    link.symlink_to(target)
    for text in ("new", "newer"):  # into nothing, then over a file
        write_text(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    text = "predictions\n" * 20_000  # more than a pipe holds at once
    write_text(pipe, text)
    reader.join(timeout=10)
    assert read == [text.encode()]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
def test_a_device_is_written_into(tmp_path: Path) -> None:
    link = tmp_path / "full"
    link.symlink_to(FULL)
    with pytest.raises(NoSpace):
        write_text(link, "new")
    assert stat.S_ISCHR(FULL.stat().st_mode)


def test_the_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    def private(beside: Path) -> None:
        beside.unlink()
        beside.touch(mode=0o600)

    write_atomically(tmp_path / "x", private)
    (tmp_path / "plain").touch()
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_home_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert expanded("~/rows.npz") == Path("/home/somebody/rows.npz")
    with pytest.raises(UserError, match=r"~nosuchuser/rows\.npz: there is no home folder"):
        expanded("~nosuchuser/rows.npz")


def test_what_a_killed_process_left_half_written_is_found_and_nothing_else(tmp_path: Path) -> None:
    ours = [".config.toml.0a1b2c3d.part", ".tmpwM35Yi"]  # the second is how safetensors writes a file
    others = ["config.toml", "x.part", ".tmp", ".tmp-notes", ".tmpwM35Yi.txt", "tmpwM35Yi"]
    for name in (*ours, *others):
        (tmp_path / name).touch()
    (tmp_path / ".tmpfolder").mkdir()
    remove_halves(tmp_path, tmp_path / "nowhere")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, ".tmpfolder"])


@pytest.mark.parametrize(
    "said", ["I/O error: File too large (os error {})", 'IoError(Os {{ code: {}, message: "…" }})']
)
def test_a_full_disk_is_seen_in_what_safetensors_says(said: str, tmp_path: Path) -> None:
    """As its newest version words it, and as 0.5 does."""
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        with pytest.raises(NoSpace, match="no space left to write"), guarded(tmp_path / "x"):
            raise SafetensorError("Error while serializing: " + said.format(code))
    with pytest.raises(PermissionError), guarded(tmp_path / "x"):
        raise SafetensorError("Error while serializing: " + said.format(errno.EACCES))
