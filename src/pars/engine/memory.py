"""Memory between steps."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's <malloc.h>
NEVER = (1 << 31) - 1


def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory for the next step; whether it could be asked.

    A step on a CPU frees as many megabytes as it takes, and by default glibc gives them back to the kernel each time,
    which then has to clear every page anew. Without that a small CNN trains a fifth faster (benchmarks/step.py). The
    process keeps its peak of memory in exchange. No result changes.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    return mallopt is not None and all(mallopt(option, NEVER) for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD))
