"""Bootstrapping (Reed et al. 2014): the target is the given label, mixed with the prediction of the network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pars.losses import cross_entropy, reduce
from pars.method_api import (
    Entry,
    Losses,
    Method,
    Recipe,
    Setting,
    Stage,
    Step,
    Task,
    code,
    epochs_of,
    ours,
    recall,
    third_party,
)
from pars.methods.parts.targets import one_hot

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Bootstrap(Method):
    """Cross-entropy with β·e_y + (1-β)·q, q being the network's own belief about the row."""

    target: Literal["soft", "hard"] = "soft"  # q: the prediction, or its likeliest class
    beta: float = 0.95  # weight of the given label; hard: 0.8
    detach_target: bool = False  # on: no gradient through a soft q, without which the predictions' entropy is minimized
    warm_up: int = 0  # epochs of plain cross-entropy first: a fresh network's belief is no better than noise

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("beta")
        self.require(self.warm_up >= 0, "warm_up", "a number of epochs, 0 or more")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        warm_up = epochs_of(0.0, task.epochs, self.warm_up)
        return (
            Stage("warm-up", warm_up, self.warm_up_step),
            Stage("bootstrap", task.epochs - warm_up, self.step),
        )

    def warm_up_step(self, step: Step) -> Losses:
        logits = self.forward(step)
        return {"bootstrap": reduce.mean(cross_entropy(logits, step.batch.labels))}

    def step(self, step: Step) -> Losses:
        logits = self.forward(step)
        given = one_hot(step.batch.labels, logits.shape[1])
        mixed = self.beta * given + (1 - self.beta) * self.belief(logits)
        return {"bootstrap": reduce.mean(cross_entropy(logits, mixed))}

    def belief(self, logits: Tensor) -> Tensor:
        """q [B, K]."""
        if self.target == "hard":
            return one_hot(logits.detach().argmax(dim=1), logits.shape[1])
        p = logits.float().softmax(dim=1)
        return p.detach() if self.detach_target else p

    def forward(self, step: Step) -> Tensor:
        logits = step.net(step.batch.weak)
        step.record_selection("agrees", step.batch, logits, logits.argmax(dim=1) == step.batch.labels)
        return logits


def published(setting: Setting, target: Literal["soft", "hard"]) -> Recipe:
    method = {"target": code(target), "beta": code(0.95 if target == "soft" else 0.8)}
    if setting.data == "small":
        return Recipe(Bootstrap, method=method | {"beta": ours(0.4 if target == "soft" else 0.6)})
    return Recipe(
        Bootstrap,
        method=method,
        train={
            "epochs": recall(120),
            "schedule": third_party("steps"),
            "milestones": recall((30 / 120, 80 / 120, 110 / 120)),
            "gamma": third_party(0.1),
            "lr": third_party(0.1),
            "weight_decay": third_party(1e-4),
            "batch_size": third_party(128),
        },
    )


ABOUT: dict[str, Any] = {
    "authors": "Reed et al.",
    "year": 2014,
    "link": "https://arxiv.org/abs/1412.6596",
    "cost": 1.0,
    "aliases": ("Bootstrap",),
}
ENTRIES = (
    Entry(
        name="bootstrap-soft",
        title="Bootstrapping, soft",
        summary="cross-entropy with given labels, some of each being the network's own prediction",
        recipe=partial(published, target="soft"),
        **ABOUT,
    ),
    Entry(
        name="bootstrap-hard",
        title="Bootstrapping, hard",
        summary="cross-entropy with given labels, some of each being the class that the network predicts",
        recipe=partial(published, target="hard"),
        tuned={"beta": (0.4, 0.6, 0.8, 0.95)},
        **ABOUT,
    ),
)
