"""Mixup (Zhang et al. 2018): train on convex combinations of pairs of rows and of their labels."""

from __future__ import annotations

from dataclasses import dataclass

from pars.method_api import Entry, Losses, Method, Recipe, Setting, Stage, Step, Task, code, ours, third_party
from pars.methods.parts.mixing import mixup_loss


@dataclass(frozen=True, kw_only=True)
class Mixup(Method):
    """λ·CE(x̃, y) + (1-λ)·CE(x̃, y_π) with x̃ = λ·x + (1-λ)·x_π, one λ and one permutation π for a batch."""

    alpha: float = 1.0  # λ ~ Beta(α, α): 1 is uniform, more is nearer to ½

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_positive("alpha")

    @property
    def mixes_rows(self) -> bool:
        return True

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return (Stage("train", task.epochs, self.step),)

    def step(self, step: Step) -> Losses:
        return {"mixup": mixup_loss(step, self.alpha)}


def published(setting: Setting) -> Recipe:
    """With noisy labels as Arazo et al. 2019 ran it on CIFAR: λ near ½ leaves no row to be memorized, and longer."""
    if setting.data == "small":
        return Recipe(Mixup, method={"alpha": ours(32.0)})
    return Recipe(
        Mixup,
        method={"alpha": third_party(32.0)},
        train={
            "epochs": third_party(300),
            "schedule": code("steps"),
            "milestones": third_party((100 / 300, 250 / 300)),
            "gamma": code(0.1),
            "lr": code(0.1),
            "weight_decay": code(1e-4),
            "batch_size": code(128),
        },
    )


ENTRIES = (
    Entry(
        name="mixup",
        title="mixup",
        authors="Zhang et al.",
        year=2018,
        link="https://arxiv.org/abs/1710.09412",
        summary="cross-entropy on convex combinations of pairs of rows and labels, which are hard to memorize",
        cost=1.0,
        recipe=published,
        tuned={"alpha": (0.2, 1.0, 8.0, 32.0)},
        differs="the learning rate drops at its milestones, not one epoch after them",
        robust=False,
    ),
)
