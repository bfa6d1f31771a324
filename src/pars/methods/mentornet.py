"""MentorNet PD (Jiang et al. 2018): a predefined curriculum of small losses, with random rows left out."""

from __future__ import annotations

from dataclasses import dataclass

from pars.lazy import torch
from pars.losses import cross_entropy, reduce
from pars.method_api import Entry, Losses, Method, Recipe, Setting, Stage, State, Step, Task, code


@dataclass(frozen=True, kw_only=True)
class MentorNetPD(Method):
    """Row i has weight v_i = [ℓ_i ≤ ℓ_pt], ℓ_pt being the running percentile of the batches' losses."""

    percentile: float = 0.75  # p: the share of small losses
    decay: float = 0.5  # of the running percentile ℓ_pt
    burn_in: float = 0.19  # share of the run in which every loss counts as small
    early_dropout: float = 0.5  # share of each batch that is left out at random in the first `early_share` of the run
    early_share: float = 0.17
    dropout: float = 0.05  # and after it

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("percentile", "decay", "burn_in", "early_dropout", "early_share", "dropout")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return (Stage("train", task.epochs, self.step),)

    def initial_state(self, task: Task) -> State:
        return {"percentile_loss": torch.zeros(())}

    def step(self, step: Step) -> Losses:
        logits = step.net(step.batch.weak)
        ce = cross_entropy(logits, step.batch.labels)
        now = ce.detach().quantile(self.percentile)
        threshold = self.decay * step.state["percentile_loss"] + (1 - self.decay) * now
        step.state["percentile_loss"] = threshold
        small = ce.detach() <= threshold
        step.record_selection("small_loss", step.batch, logits, small)
        v = (small | (step.progress < self.burn_in)) & self.stays(step)
        return {"ce": reduce.mean(ce, v, min_share=1.0)}  # mean of v·ℓ over the batch

    def stays(self, step: Step) -> torch.Tensor:
        """Example dropout: the mask [B] of the rows that are not left out at random, a fixed share of them."""
        rate = self.early_dropout if step.progress < self.early_share else self.dropout
        return step.permutation(len(step.batch)) < round((1 - rate) * len(step.batch))


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(MentorNetPD)
    return Recipe(
        MentorNetPD,
        method={
            "percentile": code(0.75),
            "decay": code(0.5),
            "burn_in": code(0.19),
            "early_dropout": code(0.5),
            "early_share": code(0.17),
            "dropout": code(0.05),
        },
        train={
            "epochs": code(100),
            "batch_size": code(128),
            "lr": code(0.1),
            "momentum": code(0.9),
            "weight_decay": code(2e-4),
            "schedule": code("steps"),
            "gamma": code(0.1),
            "milestones": code((19_531 / 39_000, 25_000 / 39_000, 30_000 / 39_000)),
        },
    )


ENTRIES = (
    Entry(
        name="mentornet-pd",
        title="MentorNet, predefined curriculum",
        authors="Jiang et al.",
        year=2018,
        link="https://arxiv.org/abs/1712.05055",
        summary="cross-entropy on the rows whose loss is below a running percentile, after a burn-in on all",
        cost=1.0,
        recipe=published,
        differs=(
            "the curriculum is computed, not imitated by a learned mentor, and does not change in the last tenth; "
            "weight decay does not depend on how many rows are used"
        ),
    ),
)
