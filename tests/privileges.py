"""Files that may not be read, also where the tests run as root, who may read everything."""

from __future__ import annotations

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
