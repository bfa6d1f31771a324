"""Where to run, and the random numbers that torch draws there."""

from __future__ import annotations

from typing import Literal

import torch

from pars.errors import UserError

DeviceName = Literal["auto", "cpu", "cuda"]


def resolve_device(name: DeviceName) -> str:
    """ "auto" is CUDA where there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("device is 'cuda', but this torch sees no CUDA device; use --device auto or cpu")
    return "cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu"


def seed_generators(device: str, seed: int) -> None:
    """Seed torch's own generators, of the CPU and of the device in use: dropout inside a network draws from them.

    Not torch.manual_seed: it seeds every kind of device that could be there, and each one that is not remembers the
    call with its whole stack trace for a later start, at every step anew.
    """
    torch.default_generator.manual_seed(seed)
    if device == "cuda":
        torch.cuda.manual_seed(seed)
