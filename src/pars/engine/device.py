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


def seed_torch(seed: int, device: str) -> None:
    """Seed torch's own generator of this device.

    Not `torch.manual_seed`: on a machine without CUDA that writes down the call stack for each device it might find
    later, which costs a small network a tenth of its step.
    """
    if device == "cuda":
        torch.cuda.manual_seed_all(seed)
    else:
        torch.default_generator.manual_seed(seed)
