"""How many rows at a time: as many as make it faster, as few as memory allows."""

from __future__ import annotations

import os
from pathlib import Path

from pars.encode.encoder import Encoder

SHARE = 4  # of the free memory a quarter
TEXT_BYTES = 8 << 20  # of a text of 256 tokens in a network of MiniLM's to BERT's size
IMAGE_FACTOR = 64  # a network's activations against its float32 input; measured 20 to 40 for ImageNet networks
UNKNOWN = 1 << 30


def free_memory() -> int:
    """Bytes that can be taken without swapping; 1 GiB where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return UNKNOWN


def batch_size(encoder: Encoder, free: int) -> int:
    """Rows of one call.

    >>> from pars.encode.images import pixels
    >>> batch_size(pixels(), free=8 << 30), batch_size(pixels(), free=1 << 20)
    (256, 1)
    """
    row = TEXT_BYTES if encoder.kind == "text" else IMAGE_FACTOR * 4 * 3 * max(encoder.size, 32) ** 2
    return max(1, min(encoder.batch, free // SHARE // row))
