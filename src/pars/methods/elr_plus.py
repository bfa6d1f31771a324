"""ELR+ (Liu et al. 2020): early-learning regularization of two networks, each towards the other's averaged weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pars.lazy import F, torch
from pars.losses import cross_entropy, reduce
from pars.method_api import (
    Batch,
    Draw,
    Entry,
    EpochConstant,
    Losses,
    Method,
    Recipe,
    Setting,
    Stage,
    State,
    Step,
    Task,
    code,
    ours,
)
from pars.methods.elr import early_learning
from pars.methods.parts.mixing import draw_mix
from pars.methods.parts.ramps import sigmoid_ramp
from pars.methods.parts.targets import one_hot

if TYPE_CHECKING:
    from torch import Tensor

BATCHES = ("labeled", "labeled_2")  # of the first and of the second network: each draws its own


@dataclass(frozen=True, kw_only=True)
class ELRPlus(Method):
    """Mixup plus λ·log(1 - <q, p>): q mixes averaged predictions t of both rows of a pair, p is that of the mixed row.

    The averaged predictions of a network's rows come from the averaged weights of the other one: its own would repeat
    its own mistakes. `train.ema` is the decay of these weights.
    """

    networks: ClassVar[int] = 2
    epoch_constants: ClassVar[Mapping[str, EpochConstant]] = {"beta": "momentum"}

    beta: float = 0.7  # momentum of the targets t
    weight: float = 3.0  # λ of the regularizer
    alpha: float = 1.0  # mixup: mixing weight ~ Beta(α, α), at least a half
    ramp: float = 0.0  # share of the run over which λ grows: as exp(-5(1-u)²), u from 0 to 1
    weigh_labels: bool = False  # multiply mixed labels by the mixed targets: published for 100 classes
    floor: float = 1e-4  # p is kept in [floor, 1 - floor]
    reference_epochs: int | None = None  # epochs of the run that beta is meant for; none = any

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_reference()
        self.require_shares("beta", "ramp")
        self.require_weights("weight")
        self.require_positive("alpha")
        self.require(0 < self.floor < 0.5, "floor", "a number above 0 and below 0.5")

    @property
    def mixes_rows(self) -> bool:
        return True

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return (Stage("train", task.epochs, self.at_length(task.epochs).step, {BATCHES[1]: Draw("labeled")}),)

    def initial_state(self, task: Task) -> State:
        return {name: torch.zeros(task.n_rows, task.n_classes) for name in ("targets_1", "targets_2")}

    def step(self, step: Step) -> Losses:
        losses: dict[str, Tensor] = {}
        for index in (0, 1):
            losses |= self.network_losses(step, index, step.batches[BATCHES[index]])
        return losses

    def network_losses(self, step: Step, index: int, batch: Batch) -> dict[str, Tensor]:
        """The losses of one network on its own batch, with targets from the other's averaged weights."""
        number = index + 1
        t = self.update_targets(step.state[f"targets_{number}"], batch, step.nets[1 - index].teacher(batch.weak))
        step.record_selection(f"agrees_{number}", batch, t, t.argmax(dim=1) == batch.labels)
        mix = draw_mix(step, len(batch), self.alpha, mostly_first=True)
        logits = step.nets[index](mix(batch.weak))
        q, labels = mix(t), mix(one_hot(batch.labels, logits.shape[1]))
        if self.weigh_labels:
            labels = F.normalize(labels * q, p=1, dim=1)
        losses = {f"ce_{number}": reduce.mean(cross_entropy(logits, labels))}
        if self.weight:
            p = logits.float().softmax(dim=1).clamp(self.floor, 1 - self.floor)
            weight = self.weight * sigmoid_ramp(step.progress, self.ramp)
            losses[f"elr_{number}"] = weight * reduce.mean(early_learning(q, p))
        return losses

    def update_targets(self, targets: Tensor, batch: Batch, logits: Tensor) -> Tensor:
        """Move the targets of a batch towards these predictions, and return them. Shapes: [n, K], [B, K] -> [B, K]."""
        t = self.beta * targets[batch.rows] + (1 - self.beta) * logits.float().softmax(dim=1)
        targets[batch.rows] = t
        return t

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        return {"targets": (state["targets_1"] + state["targets_2"]) / 2}


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(ELRPlus, method={"reference_epochs": code(200)})
    if setting.data == "clothing1m":
        return published_clothing1m()
    hundred = setting.data == "cifar100"
    epochs, drop = (250, 200) if hundred else (200, 150)
    beta, weight = (0.9, 7.0) if hundred else (0.9, 1.0) if setting.asymmetric else (0.7, 3.0)
    ramp = 40_000 / (epochs * 352)  # in their steps: 352 an epoch, of 45 000 rows
    return Recipe(
        ELRPlus,
        method={
            "beta": code(beta),
            "weight": code(weight),
            "reference_epochs": code(epochs),
            "alpha": code(1.0),
            "ramp": code(ramp if hundred else 0.0),
            "weigh_labels": code(hundred),
        },
        train={
            "epochs": code(epochs),
            "lr": code(0.02),
            "momentum": code(0.9),
            "weight_decay": code(5e-4),
            "batch_size": code(128),
            "schedule": code("steps"),
            "milestones": code((drop / epochs,)),
            "gamma": code(0.1),
            "ema": code(0.997),
            "ema_growth": code(ramp),
        },
    )


def published_clothing1m() -> Recipe:
    return Recipe(
        ELRPlus,
        method={
            "beta": code(0.7),
            "weight": code(3.0),
            "reference_epochs": code(15),
            "ramp": code(0.0),
            "weigh_labels": code(False),
        },
        train={
            "epochs": code(15),
            "steps_per_epoch": code(3000),
            "batch_size": code(64),
            "lr": code(0.002),
            "momentum": code(0.9),
            "weight_decay": code(1e-3),
            "schedule": code("steps"),
            "milestones": code((7 / 15,)),
            "gamma": code(0.1),
            "ema": code(0.9999),
            "ema_ramp": ours(True),  # published: at most 1 - 1/(t + 1)
        },
    )


ENTRIES = (
    Entry(
        name="elr+",
        title="Early-Learning Regularization with two networks and mixup",
        authors="Liu et al.",
        year=2020,
        link="https://arxiv.org/abs/2007.00151",
        summary="two networks with mixup, each held near the other's averaged predictions for each row",
        cost=2 + 2 / 3,
        recipe=published,
        tuned={"weight": (1.0, 3.0, 7.0), "beta": (0.7, 0.9)},
        differs=(
            "both networks see the same noisy labels, and take their steps together, not an epoch after the other; no "
            "rows are held out to choose an epoch by; averaged networks begin as copies, not with weights of their own"
        ),
    ),
)
