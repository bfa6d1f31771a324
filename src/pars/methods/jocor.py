"""JoCoR (Wei et al. 2020): two networks trained as one, on the rows where label and both networks agree best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pars.losses import cross_entropy, reduce
from pars.methods.base import Method, Task, epochs_of
from pars.methods.catalogue import Entry, Recipe, Setting, code, readme
from pars.methods.co_teaching import adam_late_linear
from pars.methods.parts.divergence import kl_divergence
from pars.methods.parts.noise_rate import RATE, Forgetting, early, is_rate, published_rate, rows_kept, small_loss
from pars.methods.stage import Losses, Stage, State
from pars.methods.step import Step


@dataclass(frozen=True, kw_only=True)
class JoCoR(Method):
    """Joint loss: cross-entropy of both networks, and their symmetric divergence. The rows where it is small train."""

    networks: ClassVar[int] = 2

    weight: float = 0.5  # λ of the agreement; 1 - λ of the labels
    noise_rate: float | None = None  # τ; none = estimated early in the run
    T_k: int | None = None  # epochs until the share τ of each batch is forgotten; none = `T_k_share` of the run
    T_k_share: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(is_rate(self.noise_rate), "noise_rate", RATE)
        self.require_shares("weight", "T_k_share")

    def forgetting(self, task: Task) -> Forgetting:
        T_k = epochs_of(self.T_k_share, task.epochs, self.T_k, name="T_k")
        return Forgetting(self.noise_rate, T_k, early(task.epochs))

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return (Stage("train", task.epochs, self.step, before_epoch=self.forgetting(task).before_epoch),)

    def initial_state(self, task: Task) -> State:
        return self.forgetting(task).initial_state()

    def step(self, at: Step) -> Losses:
        first, second = (net(at.batch.weak) for net in at.nets)
        supervised = [(1 - self.weight) * cross_entropy(each, at.batch.labels) for each in (first, second)]
        # Gradients flow into both arguments of both: the networks move towards each other.
        agreement = self.weight * (kl_divergence(first, second) + kl_divergence(second, first))
        count = rows_kept(len(at.batch), at.state["forget_rate"]).clamp_min(1)
        chosen = small_loss(sum(supervised, agreement), count)
        at.chose("small_loss", at.batch, first.softmax(dim=1) + second.softmax(dim=1), chosen)
        return {
            "ce_1": reduce.mean(supervised[0], chosen),
            "ce_2": reduce.mean(supervised[1], chosen),
            "agreement": reduce.mean(agreement, chosen),
        }


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(JoCoR)
    weight = 0.85 if setting.data == "cifar100" else 0.65 if setting.rate > 0.65 else 0.9
    rate = published_rate(setting)
    if setting.noise.kind == "asymmetric":
        rate = {"noise_rate": code(setting.rate / 2)}  # with 100 classes too, where all of them are changed
    return Recipe(
        JoCoR,
        method={"weight": readme(weight), "T_k": code(10)} | rate,
        train=adam_late_linear(100 if setting.data == "cifar100" else 80),
        views={"weak": code("none")},
    )


ENTRIES = (
    Entry(
        name="jocor",
        title="Joint training with Co-Regularization",
        authors="Wei et al.",
        year=2020,
        link="https://arxiv.org/abs/2003.02752",
        summary="two networks trained on the rows where they agree best with the label and with each other",
        cost=2.0,
        recipe=published,
        needs=("noise rate (estimated if not given)",),
        differs="inputs are normalised",
    ),
)
