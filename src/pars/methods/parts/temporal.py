"""Temporal ensembling (Laine & Aila 2017): a moving average of the network's outputs for each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import torch
from pars.method_api import State
from pars.methods.parts.history import said_of

if TYPE_CHECKING:
    from torch import Tensor


def initial_ensemble(n_rows: int, n_classes: int) -> State:
    """State before training: no outputs yet."""
    return {"ensemble": torch.zeros(n_rows, n_classes)}


def update(state: State, rows: Tensor, logits: Tensor, momentum: float) -> None:
    """Update each row's average: momentum · average + (1 - momentum) · softmax(logits). No-op without averages.

    Shapes: rows [B], logits [B, K].
    """
    if "ensemble" not in state:
        return
    with torch.no_grad():
        state["ensemble"][rows] = torch.lerp(said_of(rows, logits), state["ensemble"][rows], momentum)


def ensemble_logits(state: State, rows: Tensor, otherwise: Tensor | float = 0.0) -> Tensor:
    """Logits of each row's average; `otherwise` [B, K] where there are no outputs yet. Shapes: [B] -> [B, K].

    >>> state = initial_ensemble(2, 2)
    >>> update(state, torch.tensor([1]), torch.tensor([[0.0, 1.0986]]), momentum=0.7)  # probabilities 1/4 and 3/4
    >>> ensemble_logits(state, torch.tensor([0, 1]), torch.zeros(2, 2)).softmax(dim=1)
    tensor([[0.5000, 0.5000],
            [0.2500, 0.7500]])
    """
    average = state["ensemble"][rows]
    weight = average.sum(dim=1, keepdim=True)  # less than 1 at first, because the average begins at 0
    return torch.where(weight > 0, (average / weight).clamp_min(1e-12).log(), otherwise)
