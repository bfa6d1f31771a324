"""Every random draw of a run, as a pure function of where it happens.

A draw is addressed by (seed, stream, epoch, step): nothing has to be remembered between draws, so a resumed run, a
run with more loader workers or one split over processes draws the very same numbers. Philox is a counter-based
generator: the address *is* its state.
"""

from __future__ import annotations

import hashlib

import numpy as np


def stream_id(name: str) -> int:
    """A 64-bit number for a stream's name, the same on every machine and in every process.

    >>> stream_id("views/weak/0") == stream_id("views/weak/0") != stream_id("views/weak/1")
    True
    """
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def generator(seed: int, stream: str, epoch: int = 0, step: int = 0) -> np.random.Generator:
    """The generator of one draw site.

    >>> a, b = generator(1, "noise"), generator(1, "noise")
    >>> bool((a.random(3) == b.random(3)).all())
    True
    >>> float(generator(1, "noise", epoch=1).random()) == float(generator(1, "noise", epoch=2).random())
    False
    """
    # Not a plain list: numpy would turn one number below 2**63 and one above it into rounded floats.
    key = np.array([int(seed) % 2**64, stream_id(stream)], dtype=np.uint64)
    # The lowest counter word is left to the generator itself: 2**64 blocks per draw site.
    return np.random.Generator(np.random.Philox(key=key, counter=[0, step, epoch, 0]))


def torch_seed(seed: int, stream: str, epoch: int = 0, step: int = 0) -> int:
    """A seed for torch's own generators (weight initialization, dropout inside a network)."""
    return int(generator(seed, stream, epoch, step).integers(2**63))
