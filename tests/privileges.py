"""Files that may not be read, also where the tests run as root, who may read everything."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def unreadable(name: str, content: bytes) -> Iterator[Path]:
    """A file in a folder open to all that nobody may read; meanwhile root is nobody."""
    before = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / name
        path.write_bytes(content)
        path.chmod(0)
        try:
            if before == 0:
                os.seteuid(NOBODY)
            yield path
        finally:
            os.seteuid(before)


OVERRIDE = (
    1 << 1 | 1 << 2
)  # Linux's CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: root's leave to write and read everything
VERSION_3 = 0x20080522


@contextmanager
def ordinary_rights() -> Iterator[None]:
    """Meanwhile folders and files without leave to write may not be written, by root either."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable: first their low halves, then the high ones
    if libc.capget(header, data):
        raise OSError(ctypes.get_errno(), "capget")
    before = data[0]
    data[0] = before & ~OVERRIDE
    if libc.capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")
    try:
        yield
    finally:
        data[0] = before
        libc.capset(header, data)
