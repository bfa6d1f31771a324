"""The mean prediction over the last batches."""

from __future__ import annotations

import torch
from torch import Tensor

from pars.methods.stage import State


def remembered(state: State, h: Tensor, memory: float) -> Tensor:
    """The mean prediction [K] over the last batches, with this batch's gradient; `h` itself where none is remembered.

    A batch has its own random class counts, and a penalty on one batch punishes the network for them.
    """
    if "mean_prediction" not in state:
        return h
    mean = torch.lerp(h.detach(), state["mean_prediction"], memory)
    state["mean_prediction"] = mean
    return mean + (h - h.detach())
