"""JoCoR (Wei et al. 2020): two networks trained as one, on the rows where label and both networks agree best."""

from __future__ import annotations

from dataclasses import dataclass

from pars.losses import cross_entropy, reduce
from pars.method_api import Entry, Losses, Recipe, Setting, Step, code, readme
from pars.methods.co_teaching import CoTeaching, adam_late_linear
from pars.methods.parts.small_loss import n_selected, published_noise_rate, small_loss_mask
from pars.methods.parts.targets import kl_divergence


@dataclass(frozen=True, kw_only=True)
class JoCoR(CoTeaching):
    """Joint loss: cross-entropy of both networks, and their symmetric divergence. The rows where it is small train.

    How many those are goes by Co-teaching's schedule.
    """

    weight: float = 0.5  # λ of the agreement; 1 - λ of the labels

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("weight")

    def step(self, step: Step) -> Losses:
        first, second = (net(step.batch.weak) for net in step.nets)
        supervised = [(1 - self.weight) * cross_entropy(each, step.batch.labels) for each in (first, second)]
        # Gradients flow into both arguments of both: the networks move towards each other.
        agreement = self.weight * (kl_divergence(first, second) + kl_divergence(second, first))
        count = n_selected(len(step.batch), step.state["forget_rate"]).clamp_min(1)
        chosen = small_loss_mask(sum(supervised, agreement), count)
        step.record_selection("small_loss", step.batch, first.softmax(dim=1) + second.softmax(dim=1), chosen)
        return {
            "ce_1": reduce.mean(supervised[0], chosen),
            "ce_2": reduce.mean(supervised[1], chosen),
            "agreement": reduce.mean(agreement, chosen),
        }


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(JoCoR)
    weight = 0.85 if setting.data == "cifar100" else 0.65 if setting.rate > 0.65 else 0.9
    rate = published_noise_rate(setting)
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
        differs="inputs are normalized",
    ),
)
