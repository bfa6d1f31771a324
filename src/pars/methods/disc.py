"""DISC (Li et al. 2023): each row's own averaged confidence, in two views, is the threshold its label has to pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pars.lazy import torch
from pars.losses import cross_entropy, gce, reduce
from pars.method_api import (
    Cited,
    Entry,
    Epoch,
    EpochConstant,
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
    issue,
    ours,
)
from pars.methods.parts.class_balance import has_several_classes
from pars.methods.parts.mixing import draw_mix
from pars.methods.parts.targets import one_hot

if TYPE_CHECKING:
    from torch import Tensor

HIGHEST = 0.99  # what a prediction has to exceed to correct a label, at most


@dataclass(frozen=True, kw_only=True)
class DISC(Method):
    """Dynamic instance-specific selection and correction.

    Clean rows (both views pass their threshold) are trained with cross-entropy, hard ones (one view does) with a
    robust loss, and mixup covers both and the rows whose label is corrected.
    """

    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (Length("warm_up", "warm_up_share", first_stage=True),)
    epoch_constants: ClassVar[Mapping[str, EpochConstant]] = {"m": "momentum"}

    m: float = 0.95  # momentum of the thresholds, which start near 0 and move once per epoch
    sigma: float = 0.5  # by how much a prediction has to exceed them to correct a label
    lambda_h: float = 1.0  # hard rows
    q: float = 0.7  # of their generalized cross-entropy
    alpha: float = 5.0  # mixup: λ ~ Beta(α, α), at least a half
    warm_up: int | None = None  # epochs; none = `warm_up_share` of the run
    warm_up_share: float = 0.1
    reference_epochs: int | None = None  # epochs of the run that m is meant for; none = any

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_reference()
        self.require_shares("m", "sigma", "warm_up_share")
        self.require_weights("lambda_h")
        self.require_positive("q", least=1e-3, most=1.0)
        self.require_positive("alpha")

    @property
    def mixes_rows(self) -> bool:
        return True

    def stages(self, task: Task) -> tuple[Stage, ...]:
        warm_up = epochs_of(self.warm_up_share, task.epochs, self.warm_up)
        choose = self.at_length(task.epochs).choose
        return (
            Stage("warm-up", warm_up, self.warm_up_step, before_epoch=choose),
            Stage("main", task.epochs - warm_up, self.main_step, before_epoch=choose),
        )

    def initial_state(self, task: Task) -> State:
        nobody = torch.zeros_like(task.labels, dtype=torch.bool)
        return {
            # Predictions of each row's last step, in either view; all 0 until it has been in one.
            "weak": torch.zeros(task.n_rows, task.n_classes),
            "strong": torch.zeros(task.n_rows, task.n_classes),
            "weak_threshold": torch.full((task.n_rows,), 1 / task.n_rows),
            "strong_threshold": torch.full((task.n_rows,), 1 / task.n_rows),
            "clean": task.labels >= 0,
            "hard": nobody,
            "corrected": nobody.clone(),
            "labels": task.labels.clone(),
        }

    def choose(self, epoch: Epoch) -> None:
        """What the last epoch's predictions say of each label; only then do the thresholds move."""
        rows, state = epoch.labeled, epoch.state
        rows = rows[state["weak"][rows].sum(dim=1) > 0]
        if not len(rows):
            return
        given, weak, strong = epoch.given[rows], state["weak"][rows], state["strong"][rows]
        weak_threshold, strong_threshold = state["weak_threshold"][rows], state["strong_threshold"][rows]
        by_weak = weak.gather(1, given[:, None])[:, 0] > weak_threshold
        by_strong = strong.gather(1, given[:, None])[:, 0] > strong_threshold
        confidence, predicted = ((weak + strong) / 2).max(dim=1)
        # Eq. 4 prints max: then a label would be corrected above 0.99 only, or never.
        needed = ((weak_threshold + strong_threshold) / 2 + self.sigma).clamp(max=HIGHEST)
        corrected = ~(by_weak | by_strong) & (confidence > needed)
        labels = torch.where(corrected, predicted, given)
        clean, hard = by_weak & by_strong, by_weak ^ by_strong
        epoch.note(
            clean=float(clean.float().mean()),
            hard=float(hard.float().mean()),
            corrected=float(corrected.float().mean()),
        )
        if has_several_classes(labels[clean | hard | corrected]):
            state["clean"][rows], state["hard"][rows] = clean, hard
            state["corrected"][rows], state["labels"][rows] = corrected, labels
        else:
            epoch.note(kept_last_split=1.0)
        # The average is of the largest probability, not of the label's.
        state["weak_threshold"][rows] = self.m * weak_threshold + (1 - self.m) * weak.amax(dim=1)
        state["strong_threshold"][rows] = self.m * strong_threshold + (1 - self.m) * strong.amax(dim=1)

    def warm_up_step(self, step: Step) -> Losses:
        weak, strong = self.forward(step)
        labels = step.batch.labels
        return {"ce": reduce.mean(cross_entropy(weak, labels) + cross_entropy(strong, labels))}

    def main_step(self, step: Step) -> Losses:
        weak, strong = self.forward(step)
        rows, given = step.batch.rows, step.batch.labels
        clean, hard = step.state["clean"][rows], step.state["hard"][rows]
        used, labels = clean | hard | step.state["corrected"][rows], step.state["labels"][rows]
        step.selections["used"] = Selection(step.batch, labels, used)
        # Means over the batch: (#clean / B) times the mean over the clean rows.
        easy = reduce.mean(cross_entropy(weak, given) + cross_entropy(strong, given), clean, min_share=1.0)
        robust = gce(weak, given, q=self.q) + gce(strong, given, q=self.q)
        return {
            "clean": easy,
            "hard": self.lambda_h * reduce.mean(robust, hard, min_share=1.0),
            "mixup": self.mixup(step, used, one_hot(labels, weak.shape[1])),
        }

    def forward(self, step: Step) -> tuple[Tensor, Tensor]:
        """Logits of both views of the batch from one forward; what they say is remembered."""
        weak, strong = step.net.together(step.batch.weak, step.batch.strong)
        step.state["weak"][step.batch.rows] = weak.detach().float().softmax(dim=1)
        step.state["strong"][step.batch.rows] = strong.detach().float().softmax(dim=1)
        return weak, strong

    def mixup(self, step: Step, used: Tensor, targets: Tensor) -> Tensor:
        """Weak views mixed with weak ones, strong with strong, of the rows whose label is trusted or corrected."""
        kept = used.nonzero()[:, 0]
        if not len(kept):
            return targets.new_zeros(())
        targets = targets[kept]
        mix_weak, mix_strong = (draw_mix(step, len(kept), self.alpha, mostly_first=True) for _ in range(2))
        weak, strong = step.net.together(mix_weak(step.batch.weak[kept]), mix_strong(step.batch.strong[kept]))
        losses = cross_entropy(weak, mix_weak(targets)) + cross_entropy(strong, mix_strong(targets))
        return reduce.mean(losses)

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        flags = {name: state[name] for name in ("clean", "hard", "corrected", "labels")}
        return flags | {"probabilities": (state["weak"] + state["strong"]) / 2}


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(DISC, method={"m": code(0.95), "reference_epochs": code(200)})
    if setting.data == "clothing1m":
        return published_clothing1m()
    instance, many_wrong = setting.noise.kind == "instance", setting.rate >= 0.6
    asymmetric = setting.asymmetric and not instance
    adam: dict[str, Cited] = {
        "optimizer": code("adam"),
        "lr": code(1e-3),
        "momentum": code(0.9),
        "weight_decay": ours(0.0),
        "schedule": code("late-linear"),
        "decay_from": code(120 / 200),
        "late_momentum": code(0.1),
    }
    sgd: dict[str, Cited] = {
        "lr": code(0.1),
        "momentum": code(0.0),
        "weight_decay": code(1e-3),
        "schedule": code("steps"),
        "milestones": code((80 / 200, 160 / 200)),
        "gamma": code(0.1),
    }
    return Recipe(
        DISC,
        method={
            "m": code(0.95 if asymmetric or many_wrong else 0.99),
            "lambda_h": code(0.2 if many_wrong else 1.0),
            "sigma": issue(0.3) if setting.rate <= 0.2 else code(0.5),
            "warm_up": code(15 if instance else 20),
            "reference_epochs": code(200),
        },
        train={"epochs": code(200), "batch_size": code(128)} | (adam if setting.rate > 0.6 else sgd),
        views={
            "pad_mode": code("reflect"),
            "strong": code("randaugment"),
            "flavor": ours("fixed"),
            "operations": code(2),
            "magnitude": code(10 if setting.data == "cifar100" else 5),
        },
    )


def published_clothing1m() -> Recipe:
    return Recipe(
        DISC,
        method={"m": code(0.95), "warm_up": code(10), "reference_epochs": code(100)},
        train={
            "epochs": code(100),
            "batch_size": code(32),
            "lr": code(0.01),
            "momentum": code(0.0),
            "weight_decay": code(5e-4),
            "schedule": code("steps"),
            "milestones": code((50 / 100, 80 / 100)),
            "gamma": code(0.1),
        },
    )


ENTRIES = (
    Entry(
        name="disc",
        title="Dynamic Instance-specific Selection and Correction",
        authors="Li et al.",
        year=2023,
        link="https://doi.org/10.1109/CVPR52729.2023.02305",
        summary="each row's averaged confidence in a weak and a strong view decides whether its label is clean, hard "
        "or to be corrected",
        cost=4.0,
        recipe=published,
        tuned={"sigma": (0.3, 0.5), "warm_up_share": (0.1, 0.25)},
        needs=("strong views",),
        differs=(
            "the strong view of its recipe has geometric operations too; no weight decay with Adam; a choice of one "
            "class only is not used"
        ),
    ),
)
