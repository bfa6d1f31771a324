"""What a method is: hyper-parameters, stages, one step each; and what a step is given.

A method never sees a file, a device, a progress bar, the test set or a true label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor

from pars.errors import UserError
from pars.methods.network import Network

Losses = Mapping[str, Tensor]
"""Named scalars; the engine sums them, logs each of them, and steps. Weights (λ) are already applied."""


@dataclass(frozen=True)
class Draw:
    """A batch beside the labelled one: from which rows, and how many times the labelled batch's size."""

    pool: Literal["labelled", "all"]
    ratio: float = 1.0


@dataclass(frozen=True)
class Stage:
    """A stretch of epochs with one kind of step."""

    name: str
    epochs: int
    step: Callable[[Step], Losses]
    more: Draw | None = None


class Batch:
    """Rows of one draw. Views are made when first asked for, each from its own stream of random numbers."""

    def __init__(self, rows: Tensor, labels: Tensor, make_view: Callable[[str, int], Tensor]) -> None:
        self.rows = rows  # [B] row numbers
        self.labels = labels  # [B] given labels, -1 = unlabelled
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
    """What a step believed about some rows; the engine, not the method, compares it with the truth."""

    batch: Batch
    predicted: Tensor  # [B] class
    ambiguous: Tensor  # [B] bool: confident enough to be called ambiguous rather than noisy (eq. ss)


@dataclass
class Step:
    """Everything one optimisation step may use."""

    nets: tuple[Network, ...]
    batch: Batch
    extra: Batch | None
    state: dict[str, Tensor]  # per-row (first dimension n) and global tensors of the method, kept in checkpoints
    rng: np.random.Generator  # for draws of the method's own: complementary labels, mixing weights
    progress: float  # share of the whole run that is done, 0..1
    stage_progress: float  # the same within this stage
    selections: dict[str, Selection] = field(default_factory=dict)

    @property
    def net(self) -> Network:
        return self.nets[0]

    @property
    def more(self) -> Batch:
        assert self.extra is not None, "the stage asked for no second batch"
        return self.extra

    def uniform_integers(self, high: int, size: int | tuple[int, ...]) -> Tensor:
        """Integers in [0, high) on the batch's device."""
        return torch.from_numpy(self.rng.integers(high, size=size)).to(self.batch.rows.device)

    def select(self, name: str, batch: Batch, logits: Tensor, tau: float) -> Tensor:
        """Eq. ss: the mask of ambiguous rows, max_k p_k > τ; remembered under `name` for the epoch's metrics."""
        confidence, predicted = logits.detach().float().softmax(dim=1).max(dim=1)
        ambiguous = confidence > tau
        self.selections[name] = Selection(batch, predicted, ambiguous)
        return ambiguous


@dataclass(frozen=True)
class Task:
    """What a method may know about its data before training."""

    n_rows: int
    n_classes: int
    labels: Tensor  # [n] given labels, -1 = unlabelled
    epochs: int


@dataclass(frozen=True, kw_only=True)
class Method:
    """Hyper-parameters of one method, in its paper's symbols."""

    networks: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse words that no Literal of the class allows: a mistyped switch must not silently mean another one."""
        for name, hint in get_type_hints(type(self)).items():
            if get_origin(hint) is Literal and getattr(self, name) not in get_args(hint):
                allowed = ", ".join(map(repr, get_args(hint)))
                raise UserError(f"method.{name} is {getattr(self, name)!r}, expected one of {allowed}")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        raise NotImplementedError

    def initial_state(self, task: Task) -> dict[str, Tensor]:
        """Tensors the method keeps between steps."""
        return {}
