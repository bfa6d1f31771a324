"""FixMatch (Sohn et al. 2020): a confident prediction for a weak view is the label of the strong view."""

from __future__ import annotations

from dataclasses import dataclass

from pars.losses import cross_entropy, reduce
from pars.method_api import LARGEST_RATIO, Draw, Entry, Losses, Method, Recipe, Setting, Stage, Step, Task, code, ours


@dataclass(frozen=True, kw_only=True)
class FixMatch(Method):
    """Cross-entropy on the labeled rows, and on confident pseudo-labels of all rows, labeled or not."""

    tau: float = 0.95  # least confidence of a pseudo-label
    lambda_u: float = 1.0  # weight of the pseudo-labels' loss
    mu: float = 7.0  # pseudo-labeled batch, in labeled batches

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("tau")
        self.require_weights("lambda_u")
        self.require_positive("mu", most=LARGEST_RATIO)

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return (Stage("train", task.epochs, self.step, {"unlabeled": Draw("all", self.mu)}),)

    def step(self, step: Step) -> Losses:
        more = step.batches["unlabeled"]
        # One forward for all three: BatchNorm is meant to see them as one batch.
        labeled, guess, student = step.net.together(step.batch.weak, more.weak, more.strong)
        confidence, pseudo_labels = guess.detach().float().softmax(dim=1).max(dim=1)
        sure = confidence >= self.tau
        step.record_selection("pseudo", more, guess, sure)
        return {
            "labeled": reduce.mean(cross_entropy(labeled, step.batch.labels)),
            # Divided by the whole batch, not by the sure rows: self-training grows as the network becomes sure.
            "pseudo": self.lambda_u * reduce.mean(cross_entropy(student, pseudo_labels), sure, min_share=1.0),
        }


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(FixMatch, method={"mu": ours(3.0)})
    return Recipe(
        FixMatch,
        method={"tau": code(0.95), "lambda_u": code(1.0), "mu": code(7.0)},
        train={
            "epochs": code(1024),
            "steps_per_epoch": code(1024),
            "batch_size": code(64),
            "lr": code(0.03),
            "nesterov": code(True),
            "weight_decay": code(1e-3 if setting.data == "cifar100" else 5e-4),
            "schedule": code("cosine-7-16"),
            "ema": code(0.999),
        },
        views={
            "strong": code("randaugment"),
            "operations": code(2),
            "magnitude": code(10),
            "flavor": code("fixmatch"),
            "pad_mode": code("reflect"),
        },
    )


ENTRIES = (
    Entry(
        name="fixmatch",
        title="FixMatch",
        authors="Sohn et al.",
        year=2020,
        link="https://arxiv.org/abs/2001.07685",
        summary="cross-entropy on given labels, and confident predictions for weak views as labels of strong ones",
        cost=7.0,  # with mu = 3; with 7, as published, 15
        recipe=published,
        tuned={"tau": (0.7, 0.8, 0.95), "lambda_u": (0.5, 1.0, 2.0)},
        needs=("strong views",),
        differs="weight decay on biases and BatchNorm too; averaged weights have BatchNorm statistics of their own",
        robust=False,
    ),
)
