"""T-revision (Xia et al. 2019): importance reweighting by an estimated transition matrix, which is then revised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pars.errors import UserError
from pars.lazy import nn, torch
from pars.losses import cross_entropy, reduce
from pars.method_api import (
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
)
from pars.methods.parts.transition import estimate_transition, estimation_step, initial_estimate, log_joint

if TYPE_CHECKING:
    from torch import Tensor

DELTA = "delta_T"  # the module that holds ΔT
SMALLEST = 1e-6  # of the probability of a label, (T + ΔT)ᵀp: ΔT may take it below 0


@dataclass(frozen=True, kw_only=True)
class TRevision(Method):
    """β·CE(p, y) with β = p_y / ((T + ΔT)ᵀp)_y: how much likelier y is as the true class than as the given label.

    T is estimated from anchors, as in loss correction. Anchors are rarely pure, so the last stage learns a correction
    ΔT by gradient, together with the network: β is its only way into the loss.
    """

    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (
        Length("estimate", "estimate_share", first_stage=True),
        Length("revise", "revise_share"),
    )
    epoch_constants: ClassVar[Mapping[str, EpochConstant]] = {"averaging": "momentum"}

    outliers: float = 0.03  # share of the rows surest of a class that are passed over as its anchors
    averaging: float = 0.7  # momentum of the averaged predictions that T is estimated from
    delta: Literal["learned", "frozen"] = "learned"  # frozen: ΔT = 0, and the last stage is reweighting as before
    estimate: int | None = None  # epochs of cross-entropy for T; none = `estimate_share` of the run
    estimate_share: float = 0.2
    estimate_momentum: float | None = None  # of SGD in these epochs; none = the run's
    revise: int | None = None  # epochs of the last stage; none = `revise_share` of the run
    revise_share: float = 0.3
    revise_lr: float = 1e-4  # Adam's, of network and ΔT together
    reference_epochs: int | None = None  # epochs of the run that `averaging` is meant for; none = any

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_reference()
        self.require_shares("averaging", "estimate_share", "revise_share")
        self.require(0 <= self.outliers < 1, "outliers", "a number from 0 up to, not including, 1")
        self.require(self.averaging < 1, "averaging", "a momentum below 1")
        self.require(self.estimate is None or self.estimate >= 1, "estimate", "1 epoch or more, to estimate T from")
        self.require_weights("revise_lr")
        momentum = self.estimate_momentum
        self.require(momentum is None or 0 <= momentum < 1, "estimate_momentum", "a number from 0 to below 1")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        first = max(1, epochs_of(self.estimate_share, task.epochs, self.estimate, name="estimate"))
        last = epochs_of(self.revise_share, task.epochs, self.revise, name="revise")
        if self.revise is None:
            last = max(0, min(last, task.epochs - first - 1))  # a short run reweights, and may revise nothing
        if first + last > task.epochs or (last and first + last == task.epochs):
            raise UserError(
                f"method.estimate and method.revise are {first} and {last} epochs of {task.epochs}: "
                "reweighting, between them, needs at least one"
            )
        begin: dict[str, object] = {"schedule": "constant"}
        if self.estimate_momentum is not None:
            begin |= {"momentum": self.estimate_momentum, "nesterov": False}
        adam = {"optimizer": "adam", "lr": self.revise_lr, "momentum": 0.9, "nesterov": False, "schedule": "constant"}
        return (
            Stage("estimate", first, self.at_length(task.epochs).estimate_step, train=begin),
            Stage(
                "reweight",
                task.epochs - first - last,
                self.reweight_step,
                before_epoch=self.estimate_once,
                own_curve=True,
            ),
            Stage("revise", last, self.revise_step if self.delta == "learned" else self.reweight_step, train=adam),
        )

    def initial_state(self, task: Task) -> State:
        n, k = task.n_rows, task.n_classes
        return initial_estimate(n, k) | {"revised": torch.eye(k), "posterior": torch.zeros(n, k)}

    def attachments(self, n_features: int, n_classes: int) -> Mapping[str, nn.Module]:
        return {DELTA: nn.ParameterDict({"weight": nn.Parameter(torch.zeros(n_classes, n_classes))})}

    def estimate_step(self, step: Step) -> Losses:
        return estimation_step(step, averaging=self.averaging)

    def estimate_once(self, epoch: Epoch) -> None:
        if epoch.index == 0:
            estimate_transition(epoch, outliers=self.outliers)
            epoch.state["revised"] = epoch.state["transition"].clone()

    def reweight_step(self, step: Step) -> Losses:
        """Importance reweighting (Liu & Tao 2016): β is a constant."""
        logits, ce = self.forward(step, step.state["transition"])
        beta = importance(logits, step.batch.labels, step.state["transition"]).detach()
        return {"reweighted": reduce.mean(beta * ce)}

    def revise_step(self, step: Step) -> Losses:
        """The same with T + ΔT, and β with its gradient."""
        revision: Any = step.net.attached[DELTA]
        revised = step.state["transition"] + revision["weight"]
        step.state["revised"] = revised.detach()
        logits, ce = self.forward(step, step.state["revised"])
        return {"revised": reduce.mean(importance(logits, step.batch.labels, revised) * ce)}

    def forward(self, step: Step, transition: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and cross-entropy of the batch; what they say of each label's true class is remembered."""
        labels = step.batch.labels
        logits = step.net(step.batch.weak)
        joint = log_joint(logits.detach(), labels, transition.clamp_min(1e-8).log())
        posterior = joint.softmax(dim=1)
        step.state["posterior"][step.batch.rows] = posterior
        step.record_selection("agrees", step.batch, logits, posterior.argmax(dim=1) == labels)
        return logits, cross_entropy(logits, labels)

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        """The first stage's predictions, P(true class | row, given label), and T before and after its revision."""
        return {name: state[name] for name in ("predictions", "posterior", "transition", "revised")}


def importance(logits: Tensor, labels: Tensor, transition: Tensor) -> Tensor:
    """Return β = p_y / (Tᵀp)_y per row. Shapes: [B, K], [B], [K, K] -> [B].

    >>> T = torch.tensor([[0.8, 0.2], [0.4, 0.6]])
    >>> importance(torch.zeros(2, 2), torch.tensor([0, 1]), T)         # 0.5 / 0.6 and 0.5 / 0.4
    tensor([0.8333, 1.2500])
    """
    p = logits.float().softmax(dim=1)
    of_label = (p * transition.T[labels]).sum(dim=1).clamp_min(SMALLEST)
    return p.gather(1, labels[:, None])[:, 0] / of_label


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(TRevision, method={"averaging": ours(0.7), "reference_epochs": ours(60)})  # as f-correction
    many = setting.data == "cifar100"
    estimate, reweight, revise = 15 if many else 20, 200, 200
    return Recipe(
        TRevision,
        method={
            "outliers": code(0.0 if many else 0.03),
            "averaging": ours(0.7),
            "reference_epochs": ours(estimate + reweight + revise),
            "estimate": code(estimate),
            "estimate_momentum": code(0.0),
            "revise": code(revise),
            "revise_lr": code(5e-7),
        },
        train={
            "epochs": code(estimate + reweight + revise),
            "lr": code(0.01),
            "momentum": code(0.9),
            "schedule": code("steps"),
            "milestones": code((40 / reweight, 80 / reweight)),  # of the second stage
            "gamma": code(0.1),
            "weight_decay": code(1e-4),
            "batch_size": code(128),
        },
    )


ENTRIES = (
    Entry(
        name="t-revision",
        title="T-revision (Reweight-R)",
        aliases=("Reweight-R",),
        authors="Xia et al.",
        year=2019,
        link="https://arxiv.org/abs/1906.00189",
        summary="weighs rows by how likely their label is the true class, through an estimated matrix of label errors, "
        "which it learns to revise",
        cost=1.0,
        recipe=published,
        differs=(
            "T from predictions averaged over the first stage, not from the epoch best on held-out rows, none of which "
            "are there to choose epochs by; ΔT is added once, not once per row, and has a gradient"
        ),
    ),
)
