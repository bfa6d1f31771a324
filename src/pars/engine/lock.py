"""One process per run folder: two that train in it would overwrite each other's checkpoints."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pars.errors import UserError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; a UserError where another process does. The system frees it when its holder dies."""
    handle = _open_locked(path)
    try:
        yield
    finally:
        # Removed while it is held: whoever opened it meanwhile finds that the name is no longer this file.
        with suppress(OSError):
            path.unlink()
        os.close(handle)


def _open_locked(path: Path) -> int:
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise UserError(f"{path.parent} cannot be trained in: {path}: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise UserError(f"{path.parent} is in use by another process; wait until it ends, or stop it") from None
        except OSError:
            return handle  # a file system without locks: better to train without one than not at all
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)  # its last holder has just removed it: take the new one
