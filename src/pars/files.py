"""Files on a user's disk: paths as people write them, and files that are replaced whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from pars.errors import UserError

PART = ".part"  # how the name of a file ends that is still being written
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NoSpace(UserError):
    """The disk, the quota or the limit of a process is used up."""


def expanded(path: str) -> Path:
    """The path with `~` and `~name` replaced by the home folder."""
    if not path:
        raise UserError("a path is empty, expected the name of a file or folder; an unset variable in the shell?")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:  # no such user, or no HOME
        raise UserError(f"{path}: there is no home folder to put in place of ~ ({error})") from None


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Turn a full disk into an error a user can act on; any other error names `path`, not the file beside it."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise NoSpace(f"no space left to write {path}; what was there before is intact") from error
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    except SafetensorError as error:  # says a full disk, a quota or a limit as text
        code = re.search(r"(?:os error |Os \{ code: )(\d+)", str(error))  # the second: safetensors 0.5
        if code is None:
            raise
        if int(code[1]) in FULL:
            raise NoSpace(f"no space left to write {path}; what was there before is intact") from error
        raise OSError(int(code[1]), str(error), str(path)) from error


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """`write` fills a file beside `path`; only when it is whole and on disk does it take the name.

    What a symbolic link points to is replaced, not the link; a pipe or a device is written into.
    """
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not path.is_file():
        _write_into(path, write)
        return
    # A name of its own: `x.part` may be the user's, or that of another process. Short: names have a limit.
    beside = path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}{PART}")
    with guarded(path):
        beside.touch(exist_ok=False)
        try:
            mode = beside.stat().st_mode
            write(beside)
            beside.chmod(mode)  # as any new file has it; safetensors makes files that only their owner may read
            with beside.open("rb+") as file:
                os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


def halves(folder: Path) -> list[Path]:
    """Files in a folder of ours that a killed process left half-written: nobody writes there now.

    safetensors writes a file through a hidden one of its own, `.tmp` and six letters or digits.
    """
    if not folder.is_dir():
        return []
    theirs = (path for path in folder.glob(".tmp??????") if path.name.isascii() and path.name[1:].isalnum())
    return [path for path in (*folder.glob(f".*{PART}"), *theirs) if path.is_file()]


def remove_halves(*folders: Path) -> None:
    for folder in folders:
        for half in halves(folder):
            half.unlink(missing_ok=True)


def _write_into(path: Path, write: Callable[[Path], object]) -> None:
    """Through a file elsewhere: writers of images and tensors want one they can go back in."""
    with tempfile.TemporaryDirectory() as folder, guarded(path):
        whole = Path(folder) / "whole"
        write(whole)
        with path.open("wb", buffering=0) as stream:  # unbuffered: an error is raised here, not at the closing
            rest = memoryview(whole.read_bytes())
            while rest:
                rest = rest[stream.write(rest) :]


def write_text(path: Path, text: str) -> None:
    write_atomically(path, partial(Path.write_text, data=text, encoding="utf-8"))


def read_arrays(path: Path, names: Sequence[str] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays (all, or those named) and the note of a safetensors file of ours, without torch."""
    try:
        path.open("rb").close()  # safetensors calls a file missing that may not be read
        with safe_open(str(path), framework="numpy") as file:
            note = json.loads((file.metadata() or {})["pars"])
            if not isinstance(note, dict):
                raise TypeError(f"its note is a {type(note).__name__}")
            return {name: file.get_tensor(name) for name in (file.keys() if names is None else names)}, note
    except PermissionError:
        raise  # it may well be whole
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a file written by pars, or is damaged: {error}") from error
