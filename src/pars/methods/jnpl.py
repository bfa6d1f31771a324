"""JNPL (Kim et al. 2021): negative and positive learning at once, instead of NLNL's three stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pars.lazy import torch
from pars.losses import cross_entropy, negative_learning, reduce
from pars.method_api import (
    Entry,
    EpochConstant,
    Losses,
    Method,
    Recipe,
    Setting,
    Stage,
    State,
    Step,
    Task,
    code,
    ours,
    third_party,
)
from pars.methods.parts import prediction_history, selected_labels
from pars.methods.parts.targets import complement_counts

if TYPE_CHECKING:
    from torch import Tensor

FLOOR = 1e-5  # of 1 - p, as in NLNL


@dataclass(frozen=True, kw_only=True)
class JNPL(Method):
    """NL+ on all rows plus λ·PL+ on those whose prediction seems clean; then NLNL's semi-supervised finish.

    NL+ learns what a row is not, with a weight that keeps wrong labels from being fitted late. PL+ learns what the
    network predicts, if no other class is above chance and a coin of that probability says so.
    """

    epoch_constants: ClassVar[Mapping[str, EpochConstant]] = {"history": "length"}

    weight: float = 0.01  # λ of PL+
    N: int = 3  # PL+: the gradient at the predicted class is -(1 - p^(2^(N+1)))
    ln_neg: int | None = None  # complementary labels drawn per row and step; none = one per class
    nl_share: float = 0.0  # share of joint learning that has NL in place of NL+, for short runs
    require_given: bool = False  # PL+ only where the given label is the predicted one
    gamma: float = 0.5  # p_y from which the finish selects a label
    lengths: tuple[float, ...] = (1000, 480, 480)
    """Of joint learning and the finish's two stages, in relation to each other."""
    lr2: float | None = None  # learning rate that the finish's stages begin with; none = the run's
    history: int = 10  # latest predictions of a row that are averaged
    reference_epochs: int | None = None  # epochs of the run that `history` is meant for; none = any

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_reference()
        self.require(1 <= self.history <= 1000, "history", "a whole number from 1 to 1000")
        self.require_weights("weight")
        self.require(0 <= self.N <= 10, "N", "a number from 0 to 10")
        self.require_shares("gamma", "nl_share")
        selected_labels.check_settings(self, ln_neg=self.ln_neg, lengths=self.lengths, stages=3, lr2=self.lr2)

    def stages(self, task: Task) -> tuple[Stage, ...]:
        joint, first, second = selected_labels.split_epochs(self.lengths, task.epochs)
        return (
            Stage("joint", joint, self.joint_step, own_curve=True),
            *selected_labels.finish((first, second), threshold=self.gamma, lr=self.lr2),
        )

    def initial_state(self, task: Task) -> State:
        history = self.at_length(task.epochs).history
        return selected_labels.initial_selection(task, weigh_classes=False, history=history)

    def joint_step(self, step: Step) -> Losses:
        logits, labels = step.net(step.batch.weak), step.batch.labels
        prediction_history.add_to_history(step.state, step.batch.rows, logits)
        drawn = complement_counts(step, labels, logits.shape[1], self.ln_neg or logits.shape[1])
        # Rows of a class that is not predicted yet are sure to be another one, where NL+ has no gradient: in a short
        # run whole classes would never be learned.
        negative = negative_learning if step.stage_progress < self.nl_share else negative_plus
        losses = {"negative": reduce.mean(negative(logits, drawn))}
        if self.weight:
            coin = torch.from_numpy(step.rng.random(len(labels))).to(labels.device)
            clean = seems_clean(logits, coin)
            predicted = logits.detach().argmax(dim=1)
            if self.require_given:
                clean = clean & (predicted == labels)
            step.record_selection("positive", step.batch, logits, clean)
            # A mean over the batch: the first few rows that seem clean would rule a mean of their own.
            losses["positive"] = self.weight * reduce.mean(
                positive_plus(logits, predicted, N=self.N), clean, min_share=1.0
            )
        return losses

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        return {"history_mean": prediction_history.mean_prediction(state)}


def negative_plus(logits: Tensor, counts: Tensor) -> Tensor:
    """Return NL+ = -Σ_k c_k (1 - p_k) log(1 - p_k) per row, the factor (1 - p_k) without gradient.

    Shapes: logits [B, K], counts [B, K] of complementary labels -> [B].
    The gradient of one draw c is p_c (1 - p_c) at its logit and -p_c p_i at the others: unlike that of negative
    learning it vanishes at p_c = 1, where the label that c was drawn for is most likely the wrong one. It is that of
    p_c itself: over many draws NL+ is mean absolute error, and as slow to begin with rare classes.

    >>> logits = torch.zeros(1, 4, requires_grad=True)
    >>> negative_plus(logits, torch.tensor([[0.0, 0.0, 1.0, 0.0]])).sum().backward()
    >>> logits.grad
    tensor([[-0.0625, -0.0625,  0.1875, -0.0625]])
    """
    rest = (1 - logits.float().softmax(dim=1)).clamp_min(FLOOR)
    return -(counts * rest.detach() * rest.log()).sum(dim=1)


def positive_plus(logits: Tensor, targets: Tensor, *, N: int) -> Tensor:
    """Return PL+ = -Π_{n=0..N} (1 + p^(2^n)) · log p of the target class per row, the product without gradient.

    Shapes: logits [B, K], targets [B] -> [B].
    The product is (1 - p^(2^(N+1))) / (1 - p): the gradient at the target's logit stays near -1 until p is near 1.
    """
    ce = cross_entropy(logits, targets)
    p = (-ce).detach().exp()
    return torch.stack([1 + p ** (2**n) for n in range(N + 1)]).prod(dim=0) * ce


def seems_clean(logits: Tensor, coin: Tensor) -> Tensor:
    """Return which rows PL+ learns: no class but the predicted one is above 1/K, and the coin is below its probability.

    Shapes: logits [B, K], coin [B] uniform in [0, 1) -> [B] bool.

    >>> p = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.35, 0.05], [0.7, 0.2, 0.1]])
    >>> seems_clean(p.log(), torch.tensor([0.5, 0.5, 0.8]))
    tensor([ True, False, False])
    """
    p = logits.detach().float().softmax(dim=1)
    top = p.amax(dim=1)
    return ((p >= 1 / p.shape[1]).sum(dim=1) <= 1) & (coin < top)


def published(setting: Setting) -> Recipe:
    """From a digest of the paper, which has no public code; draws, batch and finish are those of NLNL's code."""
    if setting.data == "small":
        # nl_share: chosen by held-out labels, small_settings.py.
        epochs = 1000 + 2 * 480
        return Recipe(JNPL, method={"nl_share": ours(0.5), "history": code(10), "reference_epochs": ours(epochs)})
    if setting.data == "clothing1m":
        return published_clothing1m()
    return Recipe(
        JNPL,
        method={
            "weight": third_party(0.01),
            "N": third_party(3),
            "ln_neg": ours(110 if setting.data == "cifar100" else 1),
            "lengths": ours((1000, 480, 480)),  # 1000 is the digest's
            "lr2": ours(0.1),
            "history": code(10),  # of NLNL's finish
            "reference_epochs": ours(1000 + 2 * 480),
        },
        train={
            "epochs": ours(1000 + 2 * 480),
            "lr": third_party(0.01),
            "schedule": third_party("steps"),
            "milestones": third_party((0.8,)),
            "gamma": third_party(0.1),
            "momentum": third_party(0.9),
            "weight_decay": third_party(1e-4),
            "batch_size": ours(128),
        },
    )


def published_clothing1m() -> Recipe:
    """A learning rate and its drop are all that the digest has."""
    return Recipe(
        JNPL,
        method={
            "weight": third_party(0.01),
            "N": third_party(3),
            "ln_neg": ours(1),
            "lengths": ours((40, 20, 20)),
            "history": ours(10),
            "reference_epochs": ours(80),
        },
        train={
            "epochs": ours(80),
            "lr": third_party(1e-3),
            "schedule": third_party("steps"),
            "milestones": third_party((30 / 40,)),  # of joint learning
            "gamma": third_party(0.1),
        },
    )


ENTRIES = (
    Entry(
        name="jnpl",
        title="Joint Negative and Positive Learning",
        authors="Kim et al.",
        year=2021,
        link="https://arxiv.org/abs/2104.06574",
        summary="learns at once what rows are not and what it predicts for those that seem clean, then as nlnl ends",
        cost=1.0,
        recipe=published,
        differs=(
            "there is no public code; complementary labels per row, batch size and finish are those of nlnl; PL+ "
            "learns the predicted class, and its mean is over the batch; small runs begin with NL"
        ),
    ),
)
