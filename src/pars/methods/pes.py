"""PES (Bai et al. 2021): late layers learn wrong labels first, so stop early and train the last one anew, briefly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pars.lazy import torch
from pars.losses import cross_entropy, reduce
from pars.method_api import (
    Cited,
    Draw,
    Entry,
    Epoch,
    Length,
    Losses,
    Method,
    Recipe,
    Selection,
    Setting,
    Stage,
    State,
    Step,
    Task,
    code,
    epochs_of,
    ours,
    readme,
    recall,
)
from pars.methods.parts.class_balance import has_several_classes
from pars.methods.parts.label_guessing import guess_labels
from pars.methods.parts.mixing import mixmatch
from pars.methods.parts.ramps import linear_ramp
from pars.methods.parts.targets import mean_softmax, one_hot

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PES(Method):
    """Progressive early stopping; then MixMatch: rows whose label is predicted are labeled, the others guessed."""

    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (
        Length("T1", "T1_share", first_stage=True),
        Length("T2", "T2_share"),
    )

    semi: bool = True  # off: cross-entropy on the confident rows alone
    T1: int | None = None  # epochs of plain training before the stop; none = `T1_share` of the run
    T1_share: float = 0.1
    T2: int | None = None  # epochs of training a fresh last layer; none = `T2_share` of what is left
    T2_share: float = 0.1
    refine_lr: float = 5e-3  # Adam's, for that layer
    frozen_head: bool = True  # the last layer stays as it is then, as in the public code
    lambda_u: float = 15.0  # guessed rows
    ramp: float = 0.06  # share of the MixMatch stage over which λ_u grows from 0
    T: float = 0.5  # temperature of the guesses
    alpha: float = 4.0  # mixing: λ ~ Beta(α, α), at least a half
    late_alpha: float = 0.75  # the same from half of the run on
    largest_weight: float = 3.0  # of a class, with MixMatch

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("T1_share", "T2_share", "ramp")
        self.require_weights("lambda_u", "refine_lr")
        self.require_positive("alpha", "late_alpha", "largest_weight")
        self.require_positive("T", least=1e-3)

    @property
    def mixes_rows(self) -> bool:
        return self.semi

    def stages(self, task: Task) -> tuple[Stage, ...]:
        first = epochs_of(self.T1_share, task.epochs, self.T1, name="T1")
        refine = epochs_of(self.T2_share, task.epochs - first, self.T2, name="T2")
        own = {"optimizer": "adam", "lr": self.refine_lr, "momentum": 0.9, "weight_decay": 0.0, "schedule": "constant"}
        confident = {"labeled": Draw(confident_rows, confident_share if self.semi else 1.0)}
        return (
            Stage("train", first, self.given_step),
            Stage("refine", refine, self.given_step, restart="head", trains="head", train=own),
            Stage(
                "mixmatch" if self.semi else "confident",
                task.epochs - first - refine,
                self.mixmatch_step if self.semi else self.confident_step,
                confident | ({"unconfident": Draw(unconfident_rows, unconfident_share)} if self.semi else {}),
                self.split,
                trains="body" if self.frozen_head else "all",
            ),
        )

    def in_shares(self, epochs: int) -> Self:
        out = super().in_shares(epochs)
        if self.T2 is None:
            return out
        left = epochs - epochs_of(self.T1_share, epochs, self.T1, name="T1")
        return replace(out, T2_share=min(1.0, self.T2 / max(1, left)))

    def initial_state(self, task: Task) -> State:
        nobody = torch.zeros_like(task.labels, dtype=torch.bool)
        return {"confident": nobody, "unconfident": nobody.clone(), "class_weights": torch.ones(task.n_classes)}

    def given_step(self, step: Step) -> Losses:
        logits = step.net(step.batch.weak)
        step.record_selection("agrees", step.batch, logits, logits.argmax(dim=1) == step.batch.labels)
        return {"ce": reduce.mean(cross_entropy(logits, step.batch.labels))}

    def split(self, epoch: Epoch) -> None:
        """Trust the labels that two weak views together predict; rows without a label are among the others."""
        rows, given, state = epoch.rows, epoch.given[epoch.rows], epoch.state
        views = (epoch.sweep(rows, "weak", index).logits for index in range(2))
        confident = mean_softmax(*views).argmax(dim=1) == given
        epoch.note(confident=float(confident.float().mean()))
        if not has_several_classes(given[confident]):
            epoch.note(kept_last_split=1.0)
            if state["confident"].any():
                return
            confident = given >= 0
        state["confident"][rows], state["unconfident"][rows] = confident, ~confident
        weights = class_weights(given[confident].bincount(minlength=epoch.n_classes))
        state["class_weights"] = weights.clamp(max=self.largest_weight) if self.semi else weights

    def mixmatch_step(self, step: Step) -> Losses:
        x, u = step.batch, step.batches["unconfident"]
        guesses = guess_labels([step.net.predict(u.view("weak", index)) for index in range(2)], self.T)
        step.selections["confident"] = Selection(x, x.labels, step.state["confident"][x.rows])
        step.selections["guessed"] = Selection(u, guesses.argmax(dim=1), step.state["confident"][u.rows])
        matched = mixmatch(
            step,
            step.net,
            [x.view("weak", 0), x.view("weak", 1)],
            one_hot(x.labels, guesses.shape[1]),
            [u.view("weak", 0), u.view("weak", 1)],
            guesses,
            alpha=self.alpha if step.progress < 0.5 else self.late_alpha,
        )
        weight = self.lambda_u * linear_ramp(step.stage_progress, self.ramp)
        return {
            "confident": matched.cross_entropy(step.state["class_weights"]),
            "guessed": weight * matched.squared_error(),
        }

    def confident_step(self, step: Step) -> Losses:
        logits, labels = step.net(step.batch.weak), step.batch.labels
        step.selections["confident"] = Selection(step.batch, labels, step.state["confident"][step.batch.rows])
        weights = step.state["class_weights"][labels]
        return {"confident": reduce.mean(weights * cross_entropy(logits, labels)) / reduce.mean(weights)}

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        return {"confident": state["confident"]}


def class_weights(counts: Tensor) -> Tensor:
    """The mean size of the classes that have rows over each one's own; 0 for those that have none. [K] -> [K]."""
    some = counts > 0
    return torch.where(some, counts[some].float().mean() / counts.clamp_min(1), 0.0)


def confident_rows(state: State) -> Tensor:
    return state["confident"].nonzero()[:, 0]


def unconfident_rows(state: State) -> Tensor:
    """Where every row is confident, the fewest rows that a batch can have are guessed although they are."""
    rows = state["unconfident"].nonzero()[:, 0]
    return rows if len(rows) else confident_rows(state)


def unconfident_share(state: State) -> float:
    """Their share of the rows, at most a half: the part of a batch they have."""
    confident, other = int(state["confident"].sum()), int(state["unconfident"].sum())
    return min(0.5, other / (confident + other))


def confident_share(state: State) -> float:
    return 1 - unconfident_share(state)


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(PES)
    hundred = setting.data == "cifar100"
    first, refine, epochs = (35 if hundred else 20), 5, 300
    return Recipe(
        PES,
        method={
            "T1": code(first),
            "T2": code(refine),
            "refine_lr": code(1e-4),
            "frozen_head": code(True),
            "lambda_u": guess_weight(setting),
            "ramp": code(16 / (epochs - first)),
            "T": code(0.5),
            "alpha": code(4.0),
            "late_alpha": code(0.75),
            "largest_weight": code(3.0),
        },
        train={
            "epochs": code(epochs + refine),  # those of the last layer are not counted there
            "batch_size": code(128),
            "lr": code(0.02),
            "momentum": code(0.9),
            "weight_decay": code(5e-4),
            "schedule": code("cosine"),
            "floor": code(0.01),
        },
    )


def guess_weight(setting: Setting) -> Cited:
    """λ_u: its README has two cells; the others grow with the rate."""
    level = 0 if setting.rate < 0.35 else 1 if setting.rate < 0.65 else 2
    if setting.data == "cifar100":
        return readme(50.0) if setting.noise.kind == "pair" else recall((50.0, 75.0, 100.0)[level])
    return readme(15.0) if setting.noise.kind == "instance" and level == 1 else recall((5.0, 15.0, 25.0)[level])


def published_cs(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(PES, method={"semi": ours(False)})
    if setting.data == "clothing1m":
        return published_clothing1m()
    return Recipe(
        PES,
        method={
            "semi": code(False),
            "T1": code(30 if setting.data == "cifar100" else 25),
            "T2": code(5),
            "refine_lr": code(1e-4),
            "frozen_head": code(True),
        },
        train={
            "epochs": code(205),
            "batch_size": ours(128),
            "lr": code(0.1),
            "momentum": ours(0.9),
            "weight_decay": code(1e-4),
            "schedule": code("steps"),
            "milestones": code((105 / 205, 155 / 205)),
            "gamma": code(0.1),
        },
    )


def published_clothing1m() -> Recipe:
    """Its code trains two networks, of which this is one."""
    return Recipe(
        PES,
        method={"semi": code(False), "T1": code(3), "T2": code(7), "refine_lr": code(5e-6), "frozen_head": code(True)},
        train={
            "epochs": code(5 + 7),  # those of the last layer are not counted there
            "batch_size": code(64),
            "lr": code(0.005),
            "schedule": ours("constant"),
            "weight_decay": code(1e-3),
        },
    )


ABOUT: dict[str, Any] = {
    "authors": "Bai et al.",
    "year": 2021,
    "link": "https://arxiv.org/abs/2106.15853",
}
ENTRIES = (
    Entry(
        name="pes",
        title="Progressive Early Stopping, semi-supervised",
        summary="stops early, trains a fresh last layer briefly, then MixMatch with the rows whose label is predicted",
        cost=3.0,
        needs=("hidden layers",),
        recipe=published,
        tuned={"T1_share": (0.05, 0.1, 0.3), "lambda_u": (5.0, 15.0, 75.0)},
        differs=(
            "refining the last layer counts among the epochs, of the curves too; guessing leaves BatchNorm's averages "
            "alone"
        ),
        **ABOUT,
    ),
    Entry(
        name="pes-cs",
        title="Progressive Early Stopping, confident samples",
        summary="PES without MixMatch: cross-entropy on the rows whose label is predicted",
        cost=1 + 2 / 3,
        needs=("hidden layers",),
        recipe=published_cs,
        differs=(
            "the last layer alone is refined, not first a ResNet's last block; no rows are held out to choose an epoch"
        ),
        **ABOUT,
    ),
)
