"""What one optimization step is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from pars.lazy import torch
from pars.method_api.network import Network
from pars.method_api.stage import State

if TYPE_CHECKING:
    from torch import Tensor


class Batch:
    """Rows of one draw. Views are made when first asked for, each from its own stream of random numbers."""

    def __init__(self, rows: Tensor, labels: Tensor, make_view: Callable[[str, int], Tensor]) -> None:
        self.rows = rows  # [B] row numbers
        self.labels = labels  # [B] given labels, -1 = unlabeled
        self._make_view = make_view
        self._made: dict[tuple[str, int], Tensor] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def view(self, name: Literal["weak", "strong"], index: int = 0) -> Tensor:
        """The index-th independent weak or strong view of these rows."""
        if (name, index) not in self._made:
            self._made[name, index] = self._make_view(name, index)
        return self._made[name, index]

    @property
    def weak(self) -> Tensor:
        return self.view("weak")

    @property
    def strong(self) -> Tensor:
        return self.view("strong")


@dataclass(frozen=True)
class Selection:
    """Rows that a step selected, and its predictions; the engine, not the method, compares them with true labels."""

    batch: Batch
    predicted: Tensor  # [B] class
    selected: Tensor  # [B] bool


@dataclass(frozen=True)
class RowParameter:
    """Values of some rows that this step learns: a leaf of the graph, and where its gradient goes."""

    name: str
    rows: Tensor  # [B]
    values: Tensor  # [B, ...]
    lr: float


@dataclass
class Step:
    """Everything one optimization step may use."""

    nets: tuple[Network, ...]
    batches: Mapping[str, Batch]
    state: State
    rng: np.random.Generator  # for draws of the method's own: complementary labels, mixing weights
    epoch: int  # of this stage, from 0
    progress: float  # share of the whole run that is done, 0..1
    stage_progress: float  # the same within this stage
    selections: dict[str, Selection] = field(default_factory=dict)
    row_parameters: list[RowParameter] = field(default_factory=list)

    @property
    def net(self) -> Network:
        return self.nets[0]

    @property
    def batch(self) -> Batch:
        return self.batches["labeled"]

    def uniform_integers(self, high: int, size: int | tuple[int, ...]) -> Tensor:
        """Integers in [0, high) on the batch's device."""
        return torch.from_numpy(self.rng.integers(high, size=size)).to(self.batch.rows.device)

    def permutation(self, n: int) -> Tensor:
        """A random order of n things on the batch's device."""
        return torch.from_numpy(self.rng.permutation(n)).to(self.batch.rows.device)

    def row_parameter(self, name: str, *, lr: float) -> Tensor:
        """`state[name]` of the labeled batch's rows, to be learned: after the step it has moved by -lr · gradient.

        Plain gradient descent, without momentum or decay, on the gradient of the losses as they are returned.
        """
        rows = self.batch.rows
        values = self.state[name][rows].requires_grad_()
        self.row_parameters.append(RowParameter(name, rows, values, lr))
        return values

    def select(self, name: str, batch: Batch, logits: Tensor, tau: float | Tensor) -> Tensor:
        """The mask [B] of confident rows, max_k p_k > τ (PARS eq. ss); recorded under `name` for the metrics."""
        confidence, predicted = logits.detach().float().softmax(dim=1).max(dim=1)
        selected = confidence > tau
        self.selections[name] = Selection(batch, predicted, selected)
        return selected

    def record_selection(self, name: str, batch: Batch, logits: Tensor, selected: Tensor) -> None:
        """Record which rows [B] of a batch a method selected, and its predictions, for the epoch's metrics."""
        self.selections[name] = Selection(batch, logits.detach().argmax(dim=1), selected)
