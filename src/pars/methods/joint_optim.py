"""Joint Optimization (Tanaka et al. 2018): labels become averaged predictions; then a fresh network learns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pars.lazy import torch
from pars.losses import class_balance, cross_entropy, reduce
from pars.method_api import (
    Cited,
    Entry,
    Epoch,
    EpochConstant,
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
    ours,
    readme,
    recall,
)
from pars.methods.parts import prediction_history
from pars.methods.parts.targets import entropy, one_hot

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class JointOptim(Method):
    """Step 1 alternates between weights, at a high learning rate, and soft labels s; step 2 retrains on s.

    A high rate does not memorize; the two regularizers keep labels that follow predictions from becoming all one class
    (L_p) or flat (L_e).
    """

    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (
        Length("step1", "step1_share", first_stage=True),
        Length("update_from", "update_share"),
    )
    epoch_constants: ClassVar[Mapping[str, EpochConstant]] = {"history": "length"}

    alpha: float = 1.2  # α of L_p, the balance of classes
    beta: float = 0.8  # β of L_e, the entropy of predictions
    step1: int | None = None  # epochs of step 1; none = `step1_share` of the run
    step1_share: float = 200 / 320
    update_from: int | None = None  # epochs after which labels are replaced; none = `update_share` of the run
    update_share: float = 70 / 320
    lr2: float | None = None  # learning rate that step 2 begins with; none = the run's
    history: int = 10  # latest predictions of a row whose mean becomes its label
    reference_epochs: int | None = None  # epochs of the run that `history` is meant for; none = any

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_reference()
        self.require(1 <= self.history <= 1000, "history", "a whole number from 1 to 1000")
        self.require_weights("alpha", "beta")
        self.require_shares("step1_share", "update_share")
        self.require(self.lr2 is None or 0 < self.lr2 <= 1e6, "lr2", "a learning rate above 0")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        first = epochs_of(self.step1_share, task.epochs, self.step1, name="step1")
        update_from = epochs_of(self.update_share, task.epochs, self.update_from, name="update_from")

        def between_epochs(epoch: Epoch) -> None:
            if epoch.index > update_from:
                self.replace_labels(epoch)

        def after_step1(epoch: Epoch) -> None:
            if epoch.index == 0 and first > update_from:
                self.replace_labels(epoch)

        curve: dict[str, object] = {"schedule": "steps", "milestones": (1 / 3, 2 / 3), "gamma": 0.1}
        return (
            Stage("step 1", first, self.joint_step, before_epoch=between_epochs),
            Stage(
                "step 2",
                task.epochs - first,
                self.retraining_step,
                before_epoch=after_step1,
                restart="all",
                train=curve if self.lr2 is None else curve | {"lr": self.lr2},
            ),
        )

    def initial_state(self, task: Task) -> State:
        given = one_hot(task.labels.clamp_min(0), task.n_classes)
        soft = torch.where((task.labels >= 0)[:, None], given, 1 / task.n_classes)
        length = self.at_length(task.epochs).history
        return {"soft_labels": soft, **prediction_history.initial_history(task.n_rows, task.n_classes, length)}

    def joint_step(self, step: Step) -> Losses:
        logits = step.net(step.batch.weak)
        prediction_history.add_to_history(step.state, step.batch.rows, logits)
        losses = self.towards_labels(step, logits)
        h = reduce.mean_probabilities(logits.float().softmax(dim=1))
        if self.alpha:
            losses["balance"] = self.alpha * class_balance(h)  # the public code's -Σ π log h is this plus log K
        if self.beta:
            losses["entropy"] = self.beta * reduce.mean(entropy(logits))
        return losses

    def retraining_step(self, step: Step) -> Losses:
        return self.towards_labels(step, step.net(step.batch.weak))

    def towards_labels(self, step: Step, logits: Tensor) -> dict[str, Tensor]:
        soft = step.state["soft_labels"][step.batch.rows]
        step.record_selection("agrees", step.batch, logits, soft.argmax(dim=1) == step.batch.labels)
        return {"ce": reduce.mean(cross_entropy(logits, soft))}

    def replace_labels(self, epoch: Epoch) -> None:
        """s: the mean of each row's latest predictions, made while it was trained on."""
        rows = epoch.labeled[epoch.state["history_writes"][epoch.labeled] > 0]
        epoch.state["soft_labels"][rows] = prediction_history.mean_prediction(epoch.state, rows)

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        return {"soft_labels": state["soft_labels"]}


RATES = {0.0: 0.012, 0.1: 0.02, 0.3: 0.03, 0.5: 0.04, 0.7: 0.08, 0.9: 0.12}  # learning rate by symmetric noise


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(JointOptim, method={"history": code(10), "reference_epochs": code(320)})
    lr, alpha, beta = regularizers(setting)
    return Recipe(
        JointOptim,
        method={
            "alpha": alpha,
            "beta": beta,
            "step1": code(200),
            "update_from": code(70),
            "lr2": code(0.2),
            "reference_epochs": code(320),
        },
        train={
            "epochs": code(320),
            "lr": lr,
            "schedule": code("constant"),
            "weight_decay": code(1e-4),
            "batch_size": code(128),
        },
    )


def regularizers(setting: Setting) -> tuple[Cited, Cited, Cited]:
    """lr, α, β. On CIFAR-100 nobody has published any: CIFAR-10's."""
    if setting.asymmetric:
        source, values = readme if setting.rate == 0.4 else recall, (0.03, 0.8, 0.4)
    else:
        rate = 0.3 if setting.noise.kind == "file" else setting.rate
        nearest = min(RATES, key=lambda r: abs(r - rate))
        source, values = readme if nearest == 0.7 else recall, (RATES[nearest], 1.2, 0.8)
    cite = ours if setting.data == "cifar100" else source
    return cite(values[0]), cite(values[1]), cite(values[2])


ENTRIES = (
    Entry(
        name="joint-optim",
        title="Joint Optimization",
        authors="Tanaka et al.",
        year=2018,
        link="https://arxiv.org/abs/1803.11364",
        summary="replaces labels by averages of the network's own predictions, then trains a fresh network on them",
        cost=1.0,
        recipe=published,
        tuned={"alpha": (0.4, 0.8, 1.2), "beta": (0.4, 0.8)},
        differs="no rows are held out to choose an epoch by: the last one counts",
    ),
)
