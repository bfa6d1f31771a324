"""PENCIL, also called P-correction (Yi & Wu 2019): every row's label is a distribution, learned with the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pars.errors import UserError
from pars.losses import cross_entropy, reduce
from pars.method_api import (
    Entry,
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
    third_party,
)
from pars.methods.parts.targets import entropy, kl_divergence, one_hot

if TYPE_CHECKING:
    from torch import Tensor

FIRST_LOGIT = 10.0  # K of the paper: ỹ = 10·e_y, a label that is all but certain


@dataclass(frozen=True, kw_only=True)
class PENCIL(Method):
    """Cross-entropy; then network and label logits ỹ by one loss; then the network alone on the learned labels.

    The label distribution of a row is ŷ = softmax(ỹ), the prediction p.
    """

    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (
        Length("stage1", "stage1_share", first_stage=True),
        Length("stage2", "stage2_share"),
    )
    epoch_constants: ClassVar[Mapping[str, EpochConstant]] = {"lambda_labels": "rate"}

    alpha: float = 0.1  # α of the compatibility of ŷ with the given label, L_o
    beta: float = 0.4  # β of the entropy of predictions, L_e
    lambda_labels: float = 2000.0  # λ: ỹ moves by -λ · gradient of the batch's loss
    lr2: float | None = None  # learning rate that stage 3 begins with; none = the run's
    stage1: int | None = None  # epochs after which labels are learned; none = `stage1_share` of the run
    stage2: int | None = None  # epochs after which labels stay; none = `stage2_share` of the run
    stage1_share: float = 70 / 320
    stage2_share: float = 200 / 320
    reference_epochs: int | None = None  # epochs of the run that lambda_labels is meant for; none = any

    compatibility: Literal["double-softmax", "log"] = "double-softmax"
    """L_o: cross-entropy of ŷ taken for logits, as the code has it, or -log ŷ_y, as the paper writes it."""
    scaling: Literal["entries", "rows"] = "entries"
    """KL and entropy: mean over the batch's B·K entries, as the code has it and λ, α, β are tuned to; or over rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_reference()
        self.require_weights("alpha", "beta", "lambda_labels")
        self.require_shares("stage1_share", "stage2_share")
        self.require(self.stage1_share <= self.stage2_share, "stage1_share", "at most stage2_share: both count from 0")
        self.require(self.lr2 is None or 0 < self.lr2 <= 1e6, "lr2", "a learning rate above 0")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        first = epochs_of(self.stage1_share, task.epochs, self.stage1, name="stage1")
        second = epochs_of(self.stage2_share, task.epochs, self.stage2, name="stage2")
        if first > second:
            raise UserError(
                f"method.stage1 is {first} epochs and method.stage2 {second}: both count from the run's first epoch, "
                "expected the first to be the smaller"
            )
        # A third at each of lr2, lr2/10, lr2/100: the public code divides whole numbers and stands still after a third.
        curve: dict[str, object] = {"schedule": "steps", "milestones": (1 / 3, 2 / 3), "gamma": 0.1}
        return (
            Stage("backbone", first, self.backbone_step),
            Stage("labels", second - first, self.at_length(task.epochs).label_step),
            Stage(
                "fine-tuning",
                task.epochs - second,
                self.fine_tuning_step,
                train=curve if self.lr2 is None else curve | {"lr": self.lr2},
            ),
        )

    def initial_state(self, task: Task) -> State:
        known = (task.labels >= 0)[:, None]  # nothing is known of the label of an unlabeled row: uniform
        return {"label_logits": FIRST_LOGIT * known * one_hot(task.labels.clamp_min(0), task.n_classes)}

    def backbone_step(self, step: Step) -> Losses:
        logits = step.net(step.batch.weak)
        step.record_selection("agrees", step.batch, logits, logits.detach().argmax(dim=1) == step.batch.labels)
        return {"raw": reduce.mean(cross_entropy(logits, step.batch.labels))}

    def label_step(self, step: Step) -> Losses:
        label_logits = step.row_parameter("label_logits", lr=self.lambda_labels)
        logits = step.net(step.batch.weak)
        return {
            "kl": self.towards_labels(step, logits, label_logits),
            "compatibility": self.alpha * reduce.mean(self.compatibility_loss(label_logits, step.batch.labels)),
            "entropy": self.beta * self.scale(logits) * reduce.mean(entropy(logits)),
        }

    def fine_tuning_step(self, step: Step) -> Losses:
        return {"kl": self.towards_labels(step, step.net(step.batch.weak), step.state["label_logits"][step.batch.rows])}

    def towards_labels(self, step: Step, logits: Tensor, label_logits: Tensor) -> Tensor:
        """L_c = KL(p ‖ ŷ): in this direction, so that a sure wrong label can be left behind."""
        step.record_selection("agrees", step.batch, logits, label_logits.detach().argmax(dim=1) == step.batch.labels)
        return self.scale(logits) * reduce.mean(kl_divergence(logits, label_logits))

    def compatibility_loss(self, label_logits: Tensor, labels: Tensor) -> Tensor:
        if self.compatibility == "log":
            return cross_entropy(label_logits, labels)
        return cross_entropy(label_logits.softmax(dim=1), labels)

    def scale(self, logits: Tensor) -> float:
        return 1 / logits.shape[1] if self.scaling == "entries" else 1.0

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        return {"labels": state["label_logits"].softmax(dim=1)}


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(PENCIL, method={"lambda_labels": third_party(300.0), "reference_epochs": code(320)})
    if setting.data == "clothing1m":
        return published_clothing1m()
    if setting.data == "cifar100":
        lr, method = third_party(0.35), {"alpha": 0.1, "beta": 0.4, "lambda_labels": 1000.0}
    elif setting.noise.is_none:
        lr, method = third_party(0.02), {"alpha": 0.1, "beta": 0.8, "lambda_labels": 200.0}
    elif setting.asymmetric:
        lr, method = third_party(0.03), {"alpha": 0.0, "beta": 0.4, "lambda_labels": 4000.0}
    elif setting.rate <= 0.5:
        lr, method = third_party(0.03), {"alpha": 0.1, "beta": 0.8, "lambda_labels": 300.0}
    else:  # the defaults of the public code, which belong to no rate that anybody names
        lr, method = code(0.06), {"alpha": 0.4, "beta": 0.1, "lambda_labels": 600.0}
    return Recipe(
        PENCIL,
        method={name: replace(lr, value=value) for name, value in method.items()}  # found where lr was
        | {"lr2": code(0.2), "stage1": code(70), "stage2": code(200), "reference_epochs": code(320)},
        train={
            "epochs": code(320),
            "lr": lr,
            "schedule": code("constant"),
            "weight_decay": code(1e-4),
            "batch_size": code(128),
        },
    )


def published_clothing1m() -> Recipe:
    return Recipe(
        PENCIL,
        method={
            "alpha": third_party(0.08),
            "beta": third_party(0.8),
            "lambda_labels": third_party(3000.0),
            "lr2": third_party(5e-4),
            "stage1": third_party(5),
            "stage2": third_party(15),
            "reference_epochs": third_party(25),
        },
        train={
            "epochs": third_party(25),
            "lr": third_party(1.6e-3),
            "schedule": third_party("constant"),
            "weight_decay": third_party(1e-3),
            "batch_size": third_party(32),
        },
    )


ENTRIES = (
    Entry(
        name="pencil",
        title="PENCIL (P-correction)",
        aliases=("P-correction",),
        authors="Yi & Wu",
        year=2019,
        link="https://arxiv.org/abs/1903.07788",
        summary="learns a distribution over classes as the label of each row, by gradient descent with the network",
        cost=1.0,
        recipe=published,
        tuned={"lambda_labels": (100.0, 300.0, 1000.0), "alpha": (0.0, 0.1)},
        differs="the last stage goes on at a tenth, then a hundredth of its learning rate; the public code, dividing "
        "whole numbers, stands still there; no rows are held out to choose an epoch by",
    ),
)
