"""Predictions of earlier epochs for each row: the last ten, or a moving average (temporal ensembling)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import torch
from pars.method_api import State

if TYPE_CHECKING:
    from torch import Tensor

LENGTH = 10  # predictions stored per row, as in Tanaka et al. 2018 and Kim et al. 2019


def initial_history(n_rows: int, n_classes: int, length: int = LENGTH) -> State:
    """Return the state of an empty history: the last `length` softmax outputs of each row.

    float16 (n·10·K·2 bytes; CIFAR-100: 100 MB, also in every checkpoint) rounds a probability by at most one part in
    2048, far less than two views of a row differ by.
    """
    return {
        "history": torch.zeros(n_rows, length, n_classes, dtype=torch.float16),
        "history_writes": torch.zeros(n_rows, dtype=torch.int64),  # number of writes to each row
    }


def add_to_history(state: State, rows: Tensor, logits: Tensor) -> None:
    """Replace the oldest output of each row by softmax(logits). Shapes: rows [B], logits [B, K]."""
    ring, writes = state["history"], state["history_writes"]
    with torch.no_grad():
        ring[rows, writes[rows] % ring.shape[1]] = _softmax_by_row(rows, logits).to(ring.dtype)
        writes[rows] = writes[rows] + 1


def mean_prediction(state: State, rows: Tensor | None = None) -> Tensor:
    """Return the mean over the history of each row; uniform for an empty one. Shapes: rows [m] (None: all) -> [m, K].

    >>> state = initial_history(2, 2)
    >>> add_to_history(state, torch.tensor([1]), torch.tensor([[0.0, 1.0986]]))    # probabilities 1/4 and 3/4
    >>> mean_prediction(state)
    tensor([[0.5000, 0.5000],
            [0.2500, 0.7500]])
    """
    ring, writes = state["history"], state["history_writes"]
    if rows is not None:
        ring, writes = ring[rows], writes[rows]
    written = writes.clamp(max=ring.shape[1])[:, None]  # the other places hold zeros
    total = ring.sum(dim=1, dtype=torch.float32)
    return torch.where(written > 0, total / written.clamp_min(1), 1 / ring.shape[2])


def clear_history(state: State) -> None:
    """Empty the history, for example when a method starts again with fresh weights."""
    state["history"].zero_()
    state["history_writes"].zero_()


def initial_ensemble(n_rows: int, n_classes: int) -> State:
    """Return the state of an empty temporal ensemble (Laine & Aila 2017): a moving average of outputs per row."""
    return {"ensemble": torch.zeros(n_rows, n_classes)}


def update_ensemble(state: State, rows: Tensor, logits: Tensor, momentum: float) -> None:
    """Update each row's average: momentum · average + (1 - momentum) · softmax(logits). No-op without averages.

    Shapes: rows [B], logits [B, K].
    """
    if "ensemble" not in state:
        return
    with torch.no_grad():
        state["ensemble"][rows] = torch.lerp(_softmax_by_row(rows, logits), state["ensemble"][rows], momentum)


def ensemble_logits(state: State, rows: Tensor, otherwise: Tensor | float = 0.0) -> Tensor:
    """Return the logits of each row's average; `otherwise` [B, K] for rows without outputs yet. Shapes: [B] -> [B, K].

    >>> state = initial_ensemble(2, 2)
    >>> update_ensemble(state, torch.tensor([1]), torch.tensor([[0.0, 1.0986]]), momentum=0.7)  # 1/4 and 3/4
    >>> ensemble_logits(state, torch.tensor([0, 1]), torch.zeros(2, 2)).softmax(dim=1)
    tensor([[0.5000, 0.5000],
            [0.2500, 0.7500]])
    """
    average = state["ensemble"][rows]
    weight = average.sum(dim=1, keepdim=True)  # below 1 at first, because the average starts at 0
    return torch.where(weight > 0, (average / weight).clamp_min(1e-12).log(), otherwise)


def _softmax_by_row(rows: Tensor, logits: Tensor) -> Tensor:
    """Return softmax(logits); a row that occurs twice gets its first output in both places.

    So the result of writing does not depend on the order. Shapes: rows [B], logits [B, K] -> [B, K].
    """
    first = (rows[:, None] == rows).int().argmax(dim=1)
    return logits.float().softmax(dim=1)[first]
