"""Training on the given labels with one loss: plain cross-entropy, or the robust warm-up loss alone (PARS eq. wu)."""

from __future__ import annotations

from dataclasses import dataclass

from pars.losses import parse, reduce
from pars.method_api import (
    Cited,
    Entry,
    Losses,
    Method,
    Recipe,
    Setting,
    Stage,
    Step,
    Task,
    code,
    ours,
    paper,
    recall,
    third_party,
)
from pars.methods.pars_paper import robust_loss_of_paper


@dataclass(frozen=True, kw_only=True)
class Supervised(Method):
    """Minimize the mean of a loss on weak views and given labels."""

    loss: str = "ce"  # any loss of pars.losses, e.g. "ce", "nce+mae", "gce(q=0.7)"
    tau: float = 0.95  # only reported: how many rows PARS would call ambiguous

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("tau")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        loss = parse(self.loss)

        def train_step(step: Step) -> Losses:
            logits = step.net(step.batch.weak)
            step.select("raw", step.batch, logits, self.tau)
            return {"raw": reduce.mean(loss(logits, step.batch.labels))}

        return (Stage("train", task.epochs, train_step),)


def with_ce_of_table_1(setting: Setting) -> Recipe:
    """The protocol behind the CE row of PARS' Table 1: quoted from DivideMix, and trained as in Arazo et al. 2019."""
    method = {"loss": paper("ce")}
    if setting.data == "small":
        return Recipe(Supervised, method=method)
    if setting.data == "clothing1m":  # the baseline in Li et al. 2019's code
        short = {"epochs": code(3), "milestones": code((2 / 3,)), "lr": code(8e-4), "batch_size": code(32)}
        steps = {"schedule": code("steps"), "gamma": code(0.1), "weight_decay": code(1e-3)}
        return Recipe(Supervised, method=method, train=short | steps)
    return Recipe(
        Supervised,
        method=method,
        train={
            "epochs": recall(120),
            "schedule": third_party("steps"),
            "milestones": recall((30 / 120, 80 / 120, 110 / 120)),
            "gamma": third_party(0.1),
            "lr": third_party(0.1),
            "momentum": third_party(0.9),
            "weight_decay": third_party(1e-4),
            "batch_size": third_party(128),
        },
    )


def with_warm_up_loss(setting: Setting) -> Recipe:
    return Recipe(Supervised, method={"loss": robust_loss(setting)["robust"]})


def robust_loss(setting: Setting) -> dict[str, Cited]:
    """RL of eq. wu, or the loss that suits the data better."""
    if setting.robust is not None:
        return {"robust": ours(setting.robust)}
    return robust_loss_of_paper(setting)


ENTRIES = (
    Entry(
        name="ce",
        title="Cross-entropy",
        aliases=("Cross-Entropy", "Standard"),
        authors="",
        year=None,
        link="",
        summary="plain training on the given labels: what every other method is measured against",
        cost=1.0,
        recipe=lambda setting: Recipe(Supervised, method={"loss": paper("ce")}),
        robust=False,
    ),
    Entry(
        name="ce-dividemix",
        title="Cross-entropy, as in PARS' Table 1",
        authors="Li et al.",
        year=2020,
        link="https://arxiv.org/abs/2002.07394",
        summary="cross-entropy in the protocol of the row that PARS' Table 1 quotes from DivideMix; `ce` has PARS' own "
        "schedule",
        cost=1.0,
        recipe=with_ce_of_table_1,
        differs="the schedule is that of Arazo et al. 2019; its epochs and milestones are recalled, not verified",
        robust=False,
    ),
    Entry(
        name="warmup",
        title="PARS' warm-up loss alone",
        authors="Goel et al.",
        year=2022,
        link="https://arxiv.org/abs/2201.10836",
        summary="the robust loss of PARS' warm-up to the end: the baseline for PARS' main stage",
        cost=1.0,
        recipe=with_warm_up_loss,
        tuned={"loss": ("nce+mae", "10*nce+mae", "gce(q=0.7)", "sce(alpha=0.1,beta=1)")},
    ),
)
