"""Stages of a run: which step, on which rows, training which weights; and what a method may do before an epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from pars.method_api.network import Network

if TYPE_CHECKING:
    from torch import Tensor

    from pars.method_api.step import Step

Losses = Mapping[str, "Tensor"]
"""Named scalars; the engine sums them, logs each of them, and steps. Weights (λ) are already applied."""

State = dict[str, "Tensor"]
"""What a method keeps between steps, by name: per row (first dimension n) or global. Saved in checkpoints."""


@dataclass(frozen=True)
class Draw:
    """The batches of one name: from which rows, and how large, in batches of `train.batch_size`.

    A method that chooses rows itself gives functions of its state. They are read when an epoch begins, after
    `before_epoch`, and again when a run is resumed within it: of tensors, therefore, that no step changes.
    """

    pool: Literal["labeled", "all"] | Callable[[State], Tensor]  # row numbers; one named twice is drawn twice as often
    ratio: float | Callable[[State], float] = 1.0
    optional: bool = False  # an empty pool: no batches of this name in that epoch, instead of an error


@dataclass(frozen=True)
class Stage:
    """A stretch of epochs with one kind of step."""

    name: str
    epochs: int
    step: Callable[[Step], Losses]
    draws: Mapping[str, Draw] = field(default_factory=dict)  # beside, or with that name instead of, "labeled"
    before_epoch: Callable[[Epoch], None] | None = None
    before_stage: Callable[[Epoch], None] | None = None
    """Called once, before `restart`: the networks still are what the stage before has made of them."""
    restart: Literal["none", "all", "head"] = "none"  # what gets fresh weights when the stage begins
    trains: Literal["all", "head", "body"] = "all"  # the rest keeps its weights
    train: Mapping[str, object] = field(default_factory=dict)
    """Fields of TrainConfig that this stage has its own values of: a new optimizer, and a curve of its own."""
    own_curve: bool = False
    """The learning rate runs over this stage instead of the run; so it does where `train` changes anything."""


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
    given: Tensor  # [n] given labels of every row, -1 = unlabeled
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
