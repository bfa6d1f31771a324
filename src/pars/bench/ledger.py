"""The ledger: one line of JSON for each cell that was run, appended whole, by any number of processes at once."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pars.errors import UserError
from pars.files import guarded

Line = dict[str, Any]
_KEYS = ("cell", "config", "status")


def read_ledger(path: Path) -> list[Line]:
    """The lines of a ledger; none where there is no file. A last line that was cut off by a kill is not one."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    lines = []
    for number, line in enumerate(text.split("\n")[:-1], 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in _KEYS):
                raise ValueError(f"expected an object with {', '.join(_KEYS)}")
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path} is no ledger: line {number}: {error}") from error
        lines.append(value)
    return lines


def append_once(path: Path, line: Mapping[str, Any]) -> bool:
    """Append a line unless the ledger has a result of the same cell and configuration; whether it was appended.

    A failure is appended unless the same one is there. Half a line that a kill left is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with guarded(path), _exclusive(path) as handle:
        end = _whole(handle)
        for found in read_ledger(path):
            same = (found["cell"], found["config"]) == (line["cell"], line["config"])
            if same and (found["status"] == "ok" or _is_same_failure(found, line)):
                return False
        content = memoryview((json.dumps(line) + "\n").encode())
        os.lseek(handle, end, os.SEEK_SET)
        while content:
            content = content[os.write(handle, content) :]
        os.fsync(handle)
        return True


def check_appendable(path: Path) -> None:
    """Raise a UserError where no line could be appended: before hours of work, not after them."""
    place = path
    while not place.exists() and place != place.parent:
        place = place.parent
    if not os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise UserError(f"{path} cannot be written: {place} is read-only, or you may not write there")


@contextmanager
def _exclusive(path: Path) -> Iterator[int]:
    """The file, opened for reading and writing, that no other process may append to."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # released when the file is closed, or its holder dies
        yield handle
    finally:
        os.close(handle)


def _whole(handle: int) -> int:
    """Cut half a line off the end; the length that is left."""
    size = os.fstat(handle).st_size
    position, tail = size, b""
    while position > 0 and b"\n" not in tail:
        step = min(4096, position)
        position -= step
        tail = os.pread(handle, step, position) + tail
    end = position + tail.rfind(b"\n") + 1
    if end < size:
        os.ftruncate(handle, end)
    return end


def _is_same_failure(found: Mapping[str, Any], line: Mapping[str, Any]) -> bool:
    return line["status"] == found["status"] == "failed" and line.get("error") == found.get("error")


def latest(lines: list[Line]) -> dict[str, Line]:
    """By cell, its last result; a failure only where there is no result."""
    out: dict[str, Line] = {}
    for line in lines:
        before = out.get(line["cell"])
        if before is None or line["status"] == "ok" or before["status"] != "ok":
            out[line["cell"]] = line
    return out
