"""What a method may use before an epoch: a pass over the rows, its state, and a place to say what it found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from torch import Tensor

from pars.methods.network import Network
from pars.methods.stage import State

ViewName = Literal["plain", "weak", "strong"]


@dataclass(frozen=True)
class Sweep:
    """What a network, in evaluation mode, answered to some rows."""

    logits: Tensor  # [m, K]
    features: Tensor | None  # [m, d], where asked for


class Pass(Protocol):
    """One pass over rows with a network: made by the engine, which has the rows."""

    def __call__(self, net: Network, rows: Tensor, view: ViewName, index: int, *, features: bool) -> Sweep: ...


@dataclass
class Epoch:
    """Everything a method may use between two epochs."""

    nets: tuple[Network, ...]
    index: int  # of this stage, from 0
    epochs: int  # of this stage
    rows: Tensor  # [m] row numbers that may be trained on: all that are not held out
    given: Tensor  # [n] given labels of every row, -1 = unlabelled
    n_classes: int
    state: State
    rng: np.random.Generator
    run_pass: Pass
    notes: dict[str, float] = field(default_factory=dict)

    @property
    def net(self) -> Network:
        return self.nets[0]

    @property
    def labeled(self) -> Tensor:
        """Row numbers of those that have a label."""
        return self.rows[self.given[self.rows] >= 0]

    def sweep(
        self, rows: Tensor, view: ViewName = "plain", index: int = 0, *, net: int = 0, features: bool = False
    ) -> Sweep:
        """What a network answers to these rows, in evaluation mode, without a gradient, in their order."""
        return self.run_pass(self.nets[net], rows, view, index, features=features)

    def note(self, **values: float | Tensor) -> None:
        """Numbers for this epoch's line in the log."""
        self.notes |= {name: float(value) for name, value in values.items()}
