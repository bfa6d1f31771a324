"""A stretch of epochs: which step, on which rows, training what; and what is prepared before each epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from torch import Tensor

if TYPE_CHECKING:
    from pars.methods.epoch import Epoch
    from pars.methods.step import Step

Losses = Mapping[str, Tensor]
"""Named scalars; the engine sums them, logs each of them, and steps. Weights (λ) are already applied."""

State = dict[str, Tensor]
"""What a method keeps between steps, by name: per row (first dimension n) or global. Saved in checkpoints."""


@dataclass(frozen=True)
class Draw:
    """The batches of one name: from which rows, and how large, in batches of `train.batch_size`.

    A method that chooses rows itself gives functions of its state. They are read when an epoch begins, after
    `before_epoch`, and again when a run is resumed within it: of tensors, therefore, that no step changes.
    """

    pool: Literal["labeled", "all"] | Callable[[State], Tensor]  # row numbers; one named twice is drawn twice as often
    ratio: float | Callable[[State], float] = 1.0


@dataclass(frozen=True)
class Stage:
    """A stretch of epochs with one kind of step."""

    name: str
    epochs: int
    step: Callable[[Step], Losses]
    draws: Mapping[str, Draw] = field(default_factory=dict)  # beside, or with that name instead of, "labeled"
    before_epoch: Callable[[Epoch], None] | None = None
    restart: Literal["none", "all", "head"] = "none"  # what gets fresh weights when the stage begins
    trains: Literal["all", "head", "body"] = "all"  # the rest keeps its weights
    train: Mapping[str, object] = field(default_factory=dict)
    """Fields of TrainConfig that this stage has its own values of: a new optimiser, and a curve of its own."""
    own_curve: bool = False
    """The learning rate runs over this stage instead of the run; so it does where `train` changes anything."""

    @property
    def has_own_curve(self) -> bool:
        return self.own_curve or bool(self.train)
