"""Loss correction (Patrini et al. 2017): learn the true classes through the matrix of how their labels go wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pars.errors import UserError
from pars.lazy import torch
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
    paper,
)
from pars.methods.parts.transition import (
    LARGEST_CONDITION,
    condition,
    estimate_transition,
    estimation_step,
    initial_estimate,
    log_joint,
)
from pars.noise import transition_matrix

if TYPE_CHECKING:
    from torch import Tensor

Direction = Literal["forward", "backward"]


@dataclass(frozen=True, kw_only=True)
class LossCorrection(Method):
    """Cross-entropy corrected by T, T_ij = P(given label j | true class i): the network learns the true classes.

    A T that is not known is read off a network trained on the given labels: what it predicts for a row that surely is
    of class i is row i of T. One that has memorized its labels would say T = I, and no rows are held out to stop it
    by. So the first stage is short, its learning rate stays high, and predictions are averaged over its epochs.
    """

    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (Length("warm_up", "warm_up_share", first_stage=True),)
    epoch_constants: ClassVar[Mapping[str, EpochConstant]] = {"averaging": "momentum"}

    direction: Direction = "forward"
    transition: Literal["anchor", "symmetric", "pair", "matrix"] = "anchor"  # anchor: estimated; else known
    noise_rate: float | None = None  # symmetric, pair (class i to i+1): share of labels that are wrong
    matrix: tuple[float, ...] = ()  # matrix: T, row by row
    outliers: float = 0.03  # anchor: share of the rows surest of a class that are passed over
    averaging: float = 0.7  # anchor: momentum of the averaged predictions
    warm_up: int | None = None  # anchor: epochs of the first stage; none = `warm_up_share` of the run
    warm_up_share: float = 0.2
    reference_epochs: int | None = None  # epochs of the run that `averaging` is meant for; none = any
    nonnegative: bool = True  # backward: keep the loss of each class from becoming negative; off: as published

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_reference()
        self.require_shares("averaging", "warm_up_share")
        self.require(0 <= self.outliers < 1, "outliers", "a number from 0 up to, not including, 1")
        self.require(self.averaging < 1, "averaging", "a momentum below 1")
        self.require(self.warm_up is None or self.warm_up >= 1, "warm_up", "1 epoch or more, to estimate T from")
        if self.transition in ("symmetric", "pair"):
            known = self.noise_rate is not None and 0 <= self.noise_rate <= 1
            self.require(known, "noise_rate", f"the share of wrong labels, 0 to 1: {self.transition} needs it")
        else:
            unused = f"none: with --method.transition {self.transition} it has no part"
            self.require(self.noise_rate is None, "noise_rate", unused)
        if self.transition == "matrix":
            self.check_matrix()
        elif self.matrix:
            raise UserError("method.matrix is given, but only --method.transition matrix makes use of it")

    def check_matrix(self) -> None:
        k = math.isqrt(len(self.matrix))
        if k < 2 or k * k != len(self.matrix):
            raise UserError(f"method.matrix has {len(self.matrix)} numbers, expected K·K for K classes: T, row by row")
        for row in (self.matrix[i : i + k] for i in range(0, k * k, k)):
            if not all(0 <= value <= 1 for value in row) or abs(sum(row) - 1) > 1e-6:
                raise UserError(f"method.matrix has the row {list(row)}, expected numbers from 0 to 1 whose sum is 1")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        if self.transition != "anchor":
            return (Stage("correct", task.epochs, self.step),)
        first = max(1, epochs_of(self.warm_up_share, task.epochs, self.warm_up))
        return (
            Stage("estimate", first, self.at_length(task.epochs).first_step, train={"schedule": "constant"}),
            Stage(
                "correct",
                task.epochs - first,
                self.step,
                before_epoch=self.estimate,
                restart="all",
                own_curve=True,
            ),
        )

    def initial_state(self, task: Task) -> State:
        n, k = task.n_rows, task.n_classes
        transition = torch.eye(k)  # until it is estimated
        if self.transition != "anchor":
            transition = self.known(k)
            self.check_known(transition, task.labels)
        return initial_estimate(n, k) | with_inverse(transition) | {"posterior": torch.zeros(n, k)}

    def known(self, k: int) -> Tensor:
        """T [K, K] as given."""
        if self.transition == "matrix":
            if len(self.matrix) != k * k:
                raise UserError(f"method.matrix has {len(self.matrix)} numbers, expected {k * k} for {k} classes")
            return torch.tensor(self.matrix).reshape(k, k)
        kind: Literal["symmetric", "pair"] = "symmetric" if self.transition == "symmetric" else "pair"
        return torch.from_numpy(transition_matrix(kind, k, self.noise_rate or 0.0, convention="exclusive")).float()

    def check_known(self, transition: Tensor, labels: Tensor) -> None:
        for label in sorted(set(labels[labels >= 0].tolist())):
            if not transition[:, label].any():
                raise UserError(f"method.matrix says that no row is labeled {label}, but some are")
        if not condition(transition) <= LARGEST_CONDITION:
            name, value = ("matrix", "") if self.transition == "matrix" else ("noise_rate", f" {self.noise_rate}")
            raise UserError(f"method.{name}{value}: T has no inverse, such labels do not tell classes apart")

    def first_step(self, step: Step) -> Losses:
        return estimation_step(step, averaging=self.averaging)

    def estimate(self, epoch: Epoch) -> None:
        """T from the first stage's predictions, once; if it tells nothing, T = I: plain cross-entropy."""
        if epoch.index == 0:
            estimate_transition(epoch, outliers=self.outliers)
            epoch.state |= with_inverse(epoch.state["transition"])

    def step(self, step: Step) -> Losses:
        rows, labels = step.batch.rows, step.batch.labels
        logits = step.net(step.batch.weak)
        joint = log_joint(logits, labels, step.state["transition"].log())
        posterior = joint.detach().softmax(dim=1)
        step.state["posterior"][rows] = posterior
        step.record_selection("agrees", step.batch, logits, posterior.argmax(dim=1) == labels)
        if self.direction == "forward":
            return {"forward": reduce.mean(-joint.logsumexp(dim=1))}
        return self.backward(logits, step.state["inverse"][labels])

    def backward(self, logits: Tensor, weights: Tensor) -> Losses:
        """Cross-entropy with row y of T⁻¹ as target, which has negative entries: alone it has no least value.

        The part of class k is an estimate of P(true class k) · E[-log p_k], which cannot be negative. Where it is, the
        network is memorizing labels: its sign is turned (Lu et al. 2020).
        """
        losses = {"backward": reduce.mean(cross_entropy(logits, weights))}
        if self.nonnegative:
            of_class = reduce.mean_probabilities(-weights * logits.float().log_softmax(dim=1))
            losses["negative"] = 2 * (-of_class).relu().sum()  # |r| = r + 2·max(0, -r)
        return losses

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        """The first stage's predictions of given labels, the second's P(true class | row, given label), and T."""
        return {name: state[name] for name in ("predictions", "posterior", "transition")}


def with_inverse(transition: Tensor) -> State:
    return {"transition": transition, "inverse": torch.linalg.pinv(transition.double()).to(transition.dtype)}


def published(setting: Setting, direction: Direction) -> Recipe:
    if setting.data == "small":
        return Recipe(
            LossCorrection, method={"direction": paper(direction), "averaging": ours(0.7), "reference_epochs": ours(60)}
        )
    many = setting.data == "cifar100"
    epochs, drops = (150, (80, 120)) if many else (120, (40, 80))
    return Recipe(
        LossCorrection,
        method={
            "direction": paper(direction),
            "outliers": code(0.0 if many else 0.03),
            "averaging": ours(0.7),
            "reference_epochs": ours(20 + epochs),
            "warm_up": ours(20),  # theirs is as long as the second, and its epoch chosen by held-out rows
        },
        train={
            "epochs": ours(20 + epochs),
            "schedule": code("steps"),
            "milestones": code(tuple(drop / epochs for drop in drops)),  # of the second stage
            "gamma": code(0.1),
            "lr": code(0.1),
            "weight_decay": code(1e-3 if many else 1e-4),
            "batch_size": code(128),
        },
    )


ABOUT: dict[str, Any] = {
    "authors": "Patrini et al.",
    "year": 2017,
    "link": "https://arxiv.org/abs/1609.03683",
    "cost": 1.0,
    "differs": "T from predictions averaged over a short first stage, not from the epoch best on held-out rows",
}
ENTRIES = (
    Entry(
        name="f-correction",
        title="Forward loss correction",
        aliases=("Forward", "Forward correction"),
        summary="predictions pass an estimated matrix of label errors before they are compared with given labels",
        recipe=partial(published, direction="forward"),
        tuned={"warm_up_share": (0.1, 0.2, 0.4), "outliers": (0.0, 0.03)},
        **ABOUT,
    ),
    Entry(
        name="b-correction",
        title="Backward loss correction",
        aliases=("Backward", "Backward correction"),
        summary="the loss of each label is replaced by a combination that is unbiased under estimated label errors",
        recipe=partial(published, direction="backward"),
        **ABOUT | {"differs": f"{ABOUT['differs']}; no class's loss becomes negative"},
    ),
)
