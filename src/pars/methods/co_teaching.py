"""Co-teaching (Han et al. 2018): two networks, each learning from the rows whose loss is small for the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pars.losses import cross_entropy, reduce
from pars.method_api import (
    Cited,
    Entry,
    Length,
    Losses,
    Method,
    Recipe,
    Setting,
    Stage,
    State,
    Step,
    Task,
    code,
    epochs_of,
)
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
class CoTeaching(Method):
    """Networks learn right labels first, so small losses mean right labels; the other's choice errs differently."""

    networks: ClassVar[int] = 2
    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (Length("T_k", "T_k_share"),)

    noise_rate: float | None = None  # τ; none = estimated early in the run
    T_k: int | None = None  # epochs until the share τ of each batch is forgotten; none = `T_k_share` of the run
    T_k_share: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(is_noise_rate(self.noise_rate), "noise_rate", VALID_NOISE_RATE)
        self.require_shares("T_k_share")

    def forgetting(self, task: Task) -> ForgetSchedule:
        T_k = epochs_of(self.T_k_share, task.epochs, self.T_k, name="T_k")
        return ForgetSchedule(self.noise_rate, T_k, estimation_epoch(task.epochs))

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return (Stage("train", task.epochs, self.step, before_epoch=self.forgetting(task).before_epoch),)

    def initial_state(self, task: Task) -> State:
        return self.forgetting(task).initial_state()

    def step(self, step: Step) -> Losses:
        logits = [net(step.batch.weak) for net in step.nets]
        ce = [cross_entropy(each, step.batch.labels) for each in logits]
        count = n_selected(len(step.batch), step.state["forget_rate"]).clamp_min(1)  # at least one row
        chosen = [small_loss_mask(each, count) for each in ce]
        for name, each, mask in zip(("small_loss_1", "small_loss_2"), logits, chosen, strict=True):
            step.record_selection(name, step.batch, each, mask)
        # Crossed: a network that chose for itself would confirm its own mistakes.
        return {"ce_1": reduce.mean(ce[0], chosen[1]), "ce_2": reduce.mean(ce[1], chosen[0])}


def adam_late_linear(decay_from: int) -> dict[str, Cited]:
    """The training of Co-teaching and its followers: Adam, from some epoch of 200 on ever slower, with a small β₁."""
    return {
        "epochs": code(200),
        "batch_size": code(128),
        "optimizer": code("adam"),
        "lr": code(1e-3),
        "momentum": code(0.9),
        "weight_decay": code(0.0),
        "schedule": code("late-linear"),
        "decay_from": code(decay_from / 200),
        "late_momentum": code(0.1),
    }


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(CoTeaching)
    return Recipe(
        CoTeaching,
        method=published_noise_rate(setting) | {"T_k": code(10)},
        train=adam_late_linear(100 if setting.data == "cifar100" else 80),
        views={"weak": code("none")},
    )


ENTRIES = (
    Entry(
        name="co-teaching",
        title="Co-teaching",
        authors="Han et al.",
        year=2018,
        link="https://arxiv.org/abs/1804.06872",
        summary="two networks, each learning from the rows of a batch whose loss is smallest for the other",
        cost=2.0,
        recipe=published,
        tuned={"T_k_share": (0.05, 0.15, 0.4)},
        needs=("noise rate (estimated if not given)",),
        differs="losses are divided by the number of rows once, not twice; inputs are normalized",
    ),
)
