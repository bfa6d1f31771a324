"""Co-teaching+ (Yu et al. 2019): Co-teaching on the rows where the two networks disagree, which keeps them apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from pars.lazy import torch
from pars.losses import cross_entropy, reduce
from pars.method_api import Entry, Length, Losses, Method, Recipe, Setting, Stage, State, Step, Task, code, epochs_of
from pars.methods.co_teaching import CoTeaching, adam_late_linear
from pars.methods.parts.small_loss import (
    VALID_NOISE_RATE,
    ForgetSchedule,
    estimation_epoch,
    is_noise_rate,
    n_selected,
    published_noise_rate,
    small_loss_mask,
)


@dataclass(frozen=True, kw_only=True)
class CoTeachingPlus(Method):
    """First Co-teaching; then each network learns the rows of disagreement whose loss is small for the other."""

    networks: ClassVar[int] = 2
    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (
        Length("T_k", "T_k_share"),
        Length("warm_up", "warm_up_share", first_stage=True),
    )

    noise_rate: float | None = None  # τ; none = estimated early in the run
    T_k: int | None = None  # epochs until the share τ is forgotten; none = `T_k_share` of the run
    T_k_share: float = 0.15
    warm_up: int | None = None  # epochs of Co-teaching; none = `warm_up_share` of the run
    warm_up_share: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(is_noise_rate(self.noise_rate), "noise_rate", VALID_NOISE_RATE)
        self.require_shares("T_k_share", "warm_up_share")

    def forgetting(self, task: Task) -> ForgetSchedule:
        T_k = epochs_of(self.T_k_share, task.epochs, self.T_k, name="T_k")
        return ForgetSchedule(self.noise_rate, T_k, estimation_epoch(task.epochs))

    def stages(self, task: Task) -> tuple[Stage, ...]:
        warm_up = epochs_of(self.warm_up_share, task.epochs, self.warm_up)
        forgetting = self.forgetting(task)
        later = replace(forgetting, done=warm_up)
        return (
            Stage("co-teaching", warm_up, CoTeaching().step, before_epoch=forgetting.before_epoch),
            Stage("disagreement", task.epochs - warm_up, self.step, before_epoch=later.before_epoch),
        )

    def initial_state(self, task: Task) -> State:
        return self.forgetting(task).initial_state()

    def step(self, step: Step) -> Losses:
        logits = [net(step.batch.weak) for net in step.nets]
        disagree = logits[0].argmax(dim=1) != logits[1].argmax(dim=1)
        ce = [cross_entropy(each, step.batch.labels) for each in logits]
        size = disagree.sum()
        kept = n_selected(size, step.state["forget_rate"])
        count = torch.where(kept > 0, kept, size)  # of too few rows to forget some, all
        chosen = [small_loss_mask(each, count, disagree) for each in ce]
        for name, each, mask in zip(("small_loss_1", "small_loss_2"), logits, chosen, strict=True):
            step.record_selection(name, step.batch, each, mask)
        # Where the networks agree on the whole batch, there is nothing to learn from it: both losses are 0.
        return {"ce_1": reduce.mean(ce[0], chosen[1]), "ce_2": reduce.mean(ce[1], chosen[0])}


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(CoTeachingPlus)
    warm_up = 5 if setting.data == "cifar100" else 20
    return Recipe(
        CoTeachingPlus,
        method=published_noise_rate(setting) | {"T_k": code(10), "warm_up": code(warm_up)},
        train=adam_late_linear(80),
        views={"weak": code("none")},
    )


ENTRIES = (
    Entry(
        name="co-teaching-plus",
        title="Co-teaching+",
        aliases=("Co-teaching+",),
        authors="Yu et al.",
        year=2019,
        link="https://arxiv.org/abs/1901.04215",
        summary="Co-teaching on the rows for which the two networks predict different classes",
        cost=2.0,
        recipe=published,
        tuned={"T_k_share": (0.05, 0.15, 0.4), "warm_up_share": (0.1, 0.3)},
        needs=("noise rate (estimated if not given)",),
        differs=(
            "cross-entropy of logits, not of probabilities; no row is lost; losses are divided by the number of rows "
            "once; a batch without disagreement teaches nothing; inputs are normalized"
        ),
    ),
)
