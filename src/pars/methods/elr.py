"""Early-learning regularization (Liu et al. 2020): stay near a running average of one's own early predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pars.lazy import torch
from pars.losses import cross_entropy, reduce
from pars.method_api import Entry, EpochConstant, Losses, Method, Recipe, Setting, Stage, State, Step, Task, code

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ELR(Method):
    """Cross-entropy plus λ·log(1 - <t, p>), t being each row's averaged prediction: it cancels wrong labels' pull."""

    epoch_constants: ClassVar[Mapping[str, EpochConstant]] = {"beta": "momentum"}

    beta: float = 0.7  # momentum of the targets t
    weight: float = 3.0  # λ of the regularizer
    floor: float = 1e-4  # p is kept in [floor, 1 - floor]
    reference_epochs: int | None = None  # epochs of the run that beta is meant for; none = any

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_reference()
        self.require_shares("beta")
        self.require_weights("weight")
        self.require(0 < self.floor < 0.5, "floor", "a number above 0 and below 0.5")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return (Stage("train", task.epochs, self.at_length(task.epochs).step),)

    def initial_state(self, task: Task) -> State:
        return {"targets": torch.zeros(task.n_rows, task.n_classes)}

    def step(self, step: Step) -> Losses:
        rows, labels = step.batch.rows, step.batch.labels
        logits = step.net(step.batch.weak)
        p = logits.float().softmax(dim=1).clamp(self.floor, 1 - self.floor)
        seen = p.detach() / p.detach().sum(dim=1, keepdim=True)
        t = self.beta * step.state["targets"][rows] + (1 - self.beta) * seen
        step.state["targets"][rows] = t
        step.record_selection("agrees", step.batch, logits, t.argmax(dim=1) == labels)
        losses = {"ce": reduce.mean(cross_entropy(logits, labels))}
        if self.weight:
            losses["elr"] = self.weight * reduce.mean(early_learning(t, p))
        return losses

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        return {"targets": state["targets"]}


def early_learning(targets: Tensor, p: Tensor) -> Tensor:
    """Return log(1 - <t, p>) per row: the smaller, the more the prediction p agrees with the target t.

    Shapes: [B, K], [B, K] -> [B]. p must stay below 1 (see `floor`).

    >>> early_learning(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([[0.9, 0.1], [0.9, 0.1]])).exp()
    tensor([0.5000, 0.1000])
    """
    return (1 - (targets * p).sum(dim=1)).log()


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        # CIFAR-100's, which held-out labels of small runs prefer to CIFAR-10's (small_settings.py).
        return Recipe(ELR, method={"beta": code(0.9), "weight": code(7.0), "reference_epochs": code(150)})
    steady = setting.data == "cifar100" or setting.asymmetric
    weight = 7.0 if setting.data == "cifar100" else 1.0 if setting.asymmetric else 3.0
    epochs = 150 if setting.data == "cifar100" or not setting.asymmetric else 120
    curve = (
        {"schedule": code("steps"), "gamma": code(0.01), "milestones": code((80 / 150, 120 / 150))}
        if setting.data == "cifar100"
        else {"schedule": code("steps"), "gamma": code(0.01), "milestones": code((40 / 120, 80 / 120))}
        if setting.asymmetric
        else {"schedule": code("warm-restarts"), "cycles": code(15), "floor": code(0.05)}
    )
    return Recipe(
        ELR,
        method={
            "beta": code(0.9 if steady else 0.7),
            "weight": code(weight),
            "reference_epochs": code(epochs),
        },
        train={"epochs": code(epochs), "lr": code(0.02), "weight_decay": code(1e-3), "batch_size": code(128), **curve},
    )


ENTRIES = (
    Entry(
        name="elr",
        title="Early-Learning Regularization",
        authors="Liu et al.",
        year=2020,
        link="https://arxiv.org/abs/2007.00151",
        summary="cross-entropy held near a running average of the network's own predictions for each row",
        cost=1.0,
        recipe=published,
        tuned={"weight": (1.0, 3.0, 7.0), "beta": (0.7, 0.9)},
        differs="no rows are held out to choose an epoch by: the last one counts",
    ),
)
