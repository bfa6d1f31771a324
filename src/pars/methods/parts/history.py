"""What a network said of each row the last few times it was trained on it: a ring of softmax outputs per row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import torch
from pars.method_api import State

if TYPE_CHECKING:
    from torch import Tensor

LENGTH = 10  # outputs kept per row, as Tanaka et al. 2018 and Kim et al. 2019 have it


def empty(n_rows: int, n_classes: int) -> State:
    """The tensors of a history in which nothing is written.

    float16 (n·10·K·2 bytes; CIFAR-100: 100 MB, in every checkpoint too) rounds a probability by a part in 2048 at most:
    far less than two views of a row differ by.
    """
    return {
        "history": torch.zeros(n_rows, LENGTH, n_classes, dtype=torch.float16),
        "history_writes": torch.zeros(n_rows, dtype=torch.int64),  # so far, of each row
    }


def said_of(rows: Tensor, logits: Tensor) -> Tensor:
    """What to write for each row: softmax(logits), of a row that is in the batch twice its first from both places.

    The order of writing must not matter. Shapes: rows [B], logits [B, K] -> [B, K].
    """
    first = (rows[:, None] == rows).int().argmax(dim=1)
    return logits.float().softmax(dim=1)[first]


def write(state: State, rows: Tensor, logits: Tensor) -> None:
    """Put softmax(logits) in the place of each row's oldest output. Shapes: rows [B], logits [B, K]."""
    ring, writes = state["history"], state["history_writes"]
    with torch.no_grad():
        ring[rows, writes[rows] % LENGTH] = said_of(rows, logits).to(ring.dtype)
        writes[rows] = writes[rows] + 1


def mean(state: State, rows: Tensor | None = None) -> Tensor:
    """The mean over what was written of each row; uniform where nothing was. Shapes: rows [m] (none = all) -> [m, K].

    >>> state = empty(2, 2)
    >>> write(state, torch.tensor([1]), torch.tensor([[0.0, 1.0986]]))    # probabilities 1/4 and 3/4
    >>> mean(state)
    tensor([[0.5000, 0.5000],
            [0.2500, 0.7500]])
    """
    ring, writes = state["history"], state["history_writes"]
    if rows is not None:
        ring, writes = ring[rows], writes[rows]
    written = writes.clamp(max=LENGTH)[:, None]  # places that nothing was written to hold zeros
    total = ring.sum(dim=1, dtype=torch.float32)
    return torch.where(written > 0, total / written.clamp_min(1), 1 / ring.shape[2])


def forget(state: State) -> None:
    """Empty the history: what a former network said is not what the next one says."""
    state["history"].zero_()
    state["history_writes"].zero_()
