"""Decoupling (Malach & Shalev-Shwartz 2017): two networks that learn only from rows on which they disagree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from pars.losses import cross_entropy, reduce
from pars.method_api import (
    Entry,
    Length,
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
    third_party,
)
from pars.methods.co_teaching import adam_late_linear


@dataclass(frozen=True, kw_only=True)
class Decoupling(Method):
    """When to update is decided by the networks, how to update by the label: what both know teaches nothing."""

    networks: ClassVar[int] = 2
    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (Length("warm_up", "warm_up_share", first_stage=True),)

    min_share: float = 0.1  # a batch's loss is divided by max(rows of disagreement, min_share·rows)
    warm_up: int | None = None  # epochs on all rows; none = `warm_up_share` of the run
    warm_up_share: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("min_share", "warm_up_share")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        warm_up = epochs_of(self.warm_up_share, task.epochs, self.warm_up)
        return (
            Stage("warm-up", warm_up, partial(self.step, all_rows=True)),
            Stage("disagreement", task.epochs - warm_up, self.step),
        )

    def step(self, step: Step, *, all_rows: bool = False) -> Losses:
        first, second = (net(step.batch.weak) for net in step.nets)
        disagree = (first.argmax(dim=1) != second.argmax(dim=1)) | all_rows
        step.record_selection("disagree", step.batch, first.softmax(dim=1) + second.softmax(dim=1), disagree)
        return {
            name: reduce.mean(cross_entropy(logits, step.batch.labels), disagree, min_share=self.min_share)
            for name, logits in (("ce_1", first), ("ce_2", second))
        }


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(Decoupling)
    train = {name: third_party(cited.value) for name, cited in adam_late_linear(80).items()}
    return Recipe(
        Decoupling,
        method={"min_share": code(0.1), "warm_up_share": ours(Decoupling.warm_up_share)},
        train=train,
        views={"weak": third_party("none")},
    )


ENTRIES = (
    Entry(
        name="decoupling",
        title="Decoupling",
        authors="Malach & Shalev-Shwartz",
        year=2017,
        link="https://arxiv.org/abs/1706.02613",
        summary="two networks that learn only from the rows for which they predict different classes",
        cost=2.0,
        recipe=published,
        differs="classes are not weighted by their frequency; its code has no CIFAR, the recipe is Co-teaching's",
    ),
)
