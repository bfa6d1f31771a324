"""Temporal ensembling (Laine & Aila 2017): a moving average of what the network said of each row, epoch after epoch."""

from __future__ import annotations

import torch
from torch import Tensor

from pars.methods.parts.history import said_of
from pars.methods.stage import State


def empty(n_rows: int, n_classes: int) -> State:
    """The tensors of an ensemble that has said nothing yet."""
    return {"ensemble": torch.zeros(n_rows, n_classes)}


@torch.no_grad()
def write(state: State, rows: Tensor, logits: Tensor, momentum: float) -> None:
    """Blend softmax(logits) into each row's average, which keeps a share of `momentum`; if averages are kept at all.

    Shapes: rows [B], logits [B, K].
    """
    if "ensemble" not in state:
        return
    state["ensemble"][rows] = torch.lerp(said_of(rows, logits), state["ensemble"][rows], momentum)


def logits_of(state: State, rows: Tensor, otherwise: Tensor | float = 0.0) -> Tensor:
    """Logits of each row's average; `otherwise` [B, K] where nothing was said yet. Shapes: [B] -> [B, K].

    >>> state = empty(2, 2)
    >>> write(state, torch.tensor([1]), torch.tensor([[0.0, 1.0986]]), momentum=0.7)  # probabilities 1/4 and 3/4
    >>> logits_of(state, torch.tensor([0, 1]), torch.zeros(2, 2)).softmax(dim=1)
    tensor([[0.5000, 0.5000],
            [0.2500, 0.7500]])
    """
    average = state["ensemble"][rows]
    weight = average.sum(dim=1, keepdim=True)  # less than 1 at first, because the average begins at 0
    return torch.where(weight > 0, (average / weight).clamp_min(1e-12).log(), otherwise)
