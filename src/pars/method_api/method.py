"""What a method is: hyper-parameters in its paper's symbols, stages, what it keeps, and what it knows of each label.

A method never sees a file, a device, a progress bar, the test set or a true label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from pars.errors import UserError
from pars.method_api.run_length import EpochConstant, rescale
from pars.method_api.stage import Stage, State

if TYPE_CHECKING:
    from torch import Tensor, nn

LARGEST_RATIO = 1000  # a second batch of so many first ones, so many classes per row: more would not fit in memory
LARGEST_WEIGHT = 1e6  # a loss times more than this leaves float32 nothing of the others


@dataclass(frozen=True)
class Task:
    """What a method may know about its data before training."""

    n_rows: int
    n_classes: int
    labels: Tensor  # [n] given labels, -1 = unlabeled
    epochs: int
    steps: int = 1  # of an epoch


@dataclass(frozen=True)
class Length:
    """A hyper-parameter that counts epochs, where it may be none, and the one that holds its share of the run then.

    Length("warm_up", "warm_up_share"): `warm_up` epochs; if that is none, the share `warm_up_share` of the run.
    """

    epochs: str  # name of the field with a number of epochs or none
    share: str  # name of the field with a share, 0 to 1
    first_stage: bool = False  # it is the length of the first stage: in a method with two, a budget may choose it


@dataclass(frozen=True, kw_only=True)
class Method:
    """Hyper-parameters of one method, in its paper's symbols."""

    networks: ClassVar[int] = 1
    lengths_in_epochs: ClassVar[tuple[Length, ...]] = ()
    """Which of the hyper-parameters are lengths in epochs that may be left to a share of the run."""
    epoch_constants: ClassVar[Mapping[str, EpochConstant]] = {}
    """Which of the hyper-parameters count epochs in another way, and how; the class then has `reference_epochs`."""

    one_gpu: ClassVar[str] = ""
    """Why the method cannot train on several GPUs; empty if it can."""

    def __post_init__(self) -> None:
        """Refuse words that no Literal of the class allows: a mistyped switch must not silently mean another one."""
        for name, hint in get_type_hints(type(self)).items():
            if get_origin(hint) is Literal and getattr(self, name) not in get_args(hint):
                allowed = ", ".join(map(repr, get_args(hint)))
                raise UserError(f"method.{name} is {getattr(self, name)!r}, expected one of {allowed}")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        """The stages of a run of `task.epochs`; the labels are not there when methods are listed."""
        raise NotImplementedError

    @property
    def mixes_rows(self) -> bool:
        """Whether the inputs of rows are combined into others (mixup), which texts as token numbers cannot be."""
        return False

    @property
    def free_length(self) -> Length | None:
        """The length of the first of two stages, where it is left to a share: a budget chooses its epochs."""
        for length in self.lengths_in_epochs:
            if length.first_stage and getattr(self, length.epochs) is None and 0 < getattr(self, length.share) < 1:
                return length
        return None

    def in_shares(self, epochs: int) -> Self:
        """The same method, every length in epochs turned into that share of a run of so many epochs."""
        changes: dict[str, float | None] = {}
        for length in self.lengths_in_epochs:
            given = getattr(self, length.epochs)
            if given is not None:
                changes |= {length.epochs: None, length.share: min(1.0, given / epochs)}
        return replace(self, **changes)

    def at_length(self, epochs: int) -> Self:
        """The same method for a run of so many epochs: constants that count epochs, rescaled from their own length.

        `stages` and `initial_state` begin with it. Without `reference_epochs` constants are used as they are.
        """
        reference: int | None = getattr(self, "reference_epochs", None)
        if reference is None or reference == epochs:
            return self
        changes: dict[str, Any] = {
            name: rescale(getattr(self, name), kind, reference=reference, epochs=epochs)
            for name, kind in self.epoch_constants.items()
        }
        return replace(self, **changes | {"reference_epochs": epochs})

    def initial_state(self, task: Task) -> State:
        """Tensors the method keeps between steps."""
        return {}

    def attachments(self, n_features: int, n_classes: int) -> Mapping[str, nn.Module]:
        """Further modules that each network is trained with, such as a projector; none by default."""
        return {}

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        """What the method's state says about each row's label: tensors [n, ...], kept with the rows of a run."""
        return {}

    def require(self, right: bool, name: str, expected: str) -> None:
        """Refuse a hyper-parameter in one line."""
        if not right:
            raise UserError(f"method.{name} is {getattr(self, name)}, expected {expected}")

    def require_reference(self) -> None:
        """Refuse a `reference_epochs` below 1."""
        reference: int | None = getattr(self, "reference_epochs", None)
        self.require(reference is None or reference >= 1, "reference_epochs", "1 epoch or more, or none")

    def require_shares(self, *names: str) -> None:
        for name in names:
            self.require(0 <= getattr(self, name) <= 1, name, "a number from 0 to 1")

    def require_weights(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            self.require(0 <= value <= LARGEST_WEIGHT, name, f"a number of at least 0 and at most {LARGEST_WEIGHT:g}")

    def require_positive(self, *names: str, least: float = 0.0, most: float = LARGEST_WEIGHT) -> None:
        """Above 0 and finite; `least` where a number nearly 0 leaves float32 nothing to divide by."""
        wanted = f"a number above 0 and at most {most:g}" if not least else f"a number from {least:g} to {most:g}"
        for name in names:
            value = getattr(self, name)
            self.require(value > 0 and least <= value <= most, name, wanted)


def epochs_of(share: float, epochs: int, given: int | None = None, *, name: str = "warm_up") -> int:
    """The epochs of a stage: as given, or a share of the run's."""
    out = round(share * epochs) if given is None else given
    if not 0 <= out <= epochs:
        raise UserError(
            f"method.{name} is {out} epochs, expected 0 to {epochs}, for there are no more; "
            f"whoever changes train.epochs has to set --method.{name.replace('_', '-')} too"
        )
    return out
