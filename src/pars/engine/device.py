"""Where to run."""

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
