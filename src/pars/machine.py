"""What this machine has: optional libraries, and free memory."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from types import ModuleType

from pars.errors import UserError

_UNKNOWN_MEMORY = 1 << 30


def import_optional(module: str, what: str, install: str) -> ModuleType:
    """Return an optional library; a UserError with the command that installs it if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        reason = "" if importlib.util.find_spec(module.partition(".")[0]) is None else f" ({error})"
        raise UserError(f"{what} needs {module.partition('.')[0]}{reason}: {install}") from None


def free_memory() -> int:
    """Return the bytes available without swapping; 1 GiB if the system does not report them."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return _UNKNOWN_MEMORY
