"""PARS: Pseudo-Label Aware Robust Sample Selection (Goel, Jiao & Massiah 2022), Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from pars.losses import class_balance, negative_learning, parse, positive_learning, reduce
from pars.methods.base import LARGEST_RATIO, Method, Task, epochs_of
from pars.methods.catalogue import Cited, Entry, Recipe, Setting, ours, paper
from pars.methods.epoch import Epoch
from pars.methods.parts import priority, temporal, votes
from pars.methods.parts.divergence import kl_divergence
from pars.methods.parts.negative import mean_negative
from pars.methods.parts.ramp import ramp_up
from pars.methods.parts.remember import remembered
from pars.methods.stage import Draw, Losses, Stage, State
from pars.methods.step import Batch, Step
from pars.methods.supervised import robust_loss

LITERAL: dict[str, object] = {
    "raw_anchor": "ambiguous",
    "raw_weight": "one",
    "trust": "full",
    "min_share": 0.0,
    "teacher": "current",
    "joint_forward": True,
    "ramp": 0.0,
    "balance_memory": 0.0,
}


@dataclass(frozen=True, kw_only=True)
class PARS(Method):
    """Robust warm-up; then robust/negative learning on the given labels and positive/negative self-training.

    The first block holds the paper's symbols, the second its ablations, the third what the paper leaves open, with
    defaults that were found by measuring (docs/method.md); `PARS.paper()` is literal in all but `raw_negative`.
    """

    tau: float = 0.95  # confidence above which a row is ambiguous, not noisy (eq. ss)
    lambda_S: float = 1.0  # self-training (eq. finalloss)
    lambda_N: float = 0.1  # negative learning (eq. rn, pn)
    lambda_R: float = 1.0  # class balance (eq. reg)
    mu: float = 3.0  # self-training batch, in labelled batches
    robust: str = "nce+mae"  # the robust loss RL (eq. wu, rn)
    warm_up: int | None = None  # epochs; none = `warm_up_share` of the run
    warm_up_share: float = 0.4

    pseudo: bool = True  # off: "PARS w/o L_pseudo"; the class-balance penalty regularises that loss and goes too
    raw_negative: Literal["complement", "given", "none"] = "complement"  # which class y_bar is: see docs/method.md
    pseudo_negative: bool = True  # with raw_negative="none": off is "PARS w/o NL"
    pseudo_positive: Literal["ce", "robust", "soft"] = "ce"
    """robust: the appendix's "robust loss on corrected labels"; soft: the teacher's probabilities, not its class."""

    late: float = 1.0  # share of the run after which labels teach only where the teacher shares them, with `late_tau`
    late_tau: float = 0.8
    shared: float = 1.0  # the teacher shares a label that has this share of its first choice's probability, or more
    raw_anchor: Literal["ambiguous", "all", "agreeing"] = "all"  # which raw labels the robust loss covers
    raw_weight: Literal["odds", "one"] = "odds"  # its weight: the odds that a raw label agrees with a sure prediction
    trust: Literal["votes", "full"] = "votes"  # how far self-training counts: by how the given labels vote on it
    min_share: float = 1.0  # subset means divide by max(#subset, min_share·#batch): 0 = eq. rn/pn, 1 = batch means
    teacher: Literal["current", "average", "temporal"] = "average"
    """Who selects and labels the self-training batch: current weights, averaged ones, or each row's earlier outputs."""
    momentum: float = 0.7  # of the average over a row's earlier outputs (teacher, draw), each time it is trained on
    joint_forward: bool = False  # one forward over raw, weak and strong views, as FixMatch; else weak has no gradient
    mask_view: Literal["weak", "strong"] = "weak"  # the view whose confidence selects self-training rows
    raw_view: Literal["weak", "strong"] = "weak"  # of raw rows in the main stage; strong, pool batch: one pass for both
    draw: Literal["evenly", "useful"] = "evenly"  # given labels: each as often, or as the robust loss learns from it
    pool: Literal["all", "batch"] = "all"  # self-train on a batch of its own, or on the labelled batch's own rows
    prior: Literal["uniform", "labels"] = "uniform"  # how common classes are (eq. reg): equally, or as given labels say
    ramp: float = 0.0  # share of the main stage over which lambda_S and lambda_R grow from 0
    negatives: int = 1  # complementary classes drawn per row and step
    balance_memory: float = 0.98  # share of earlier batches in the mean prediction of eq. reg; 0 = the batch's own

    @classmethod
    def paper(cls, **changes: object) -> PARS:
        """The literal reading of the paper, but for the raw negative term (see docs/method.md)."""
        return cls(**(LITERAL | changes))  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("tau", "warm_up_share", "late", "late_tau", "shared", "min_share", "ramp", "balance_memory")
        self.require(0 <= self.momentum < 1, "momentum", "a number from 0 and below 1")
        self.require_weights("lambda_S", "lambda_N", "lambda_R")
        self.require_positive("mu", "negatives", most=LARGEST_RATIO)
        self.require(self.shared == 1 or self.late < 1 or self.raw_anchor == "agreeing", "shared", "1 with late = 1")
        parse(self.robust)

    def stages(self, task: Task) -> tuple[Stage, ...]:
        warm_up = epochs_of(self.warm_up_share, task.epochs, self.warm_up)
        draws = {"more": Draw("all", self.mu)} if self.pseudo and self.pool == "all" else {}
        draws |= {"labelled": Draw(priority.drawn_rows)} if self.draw == "useful" else {}
        return (
            Stage("warm-up", warm_up, self.warm_up_step),
            Stage("main", task.epochs - warm_up, self.main_step, draws, self.before_epoch),
        )

    def initial_state(self, task: Task) -> State:
        state: State = {}
        if self.pseudo and self.trust == "votes":
            state |= votes.none_yet(task.n_classes)
        if self.prior == "labels":
            state["prior"] = votes.label_shares(task.labels, task.n_classes)
        if self.pseudo and self.balance_memory:
            uniform = torch.full((task.n_classes,), 1 / task.n_classes)
            state["mean_prediction"] = state.get("prior", uniform).clone()
        if self.draw == "useful":
            state |= priority.all_alike(task.labels)
        if self.draw == "useful" or self.teacher == "temporal":
            state |= temporal.empty(task.n_rows, task.n_classes)
        return state

    def before_epoch(self, epoch: Epoch) -> None:
        if self.draw == "useful":
            priority.choose(epoch, temporal.logits_of(epoch.state, epoch.labelled), parse(self.robust))
        votes.take_stock(epoch)

    def warm_up_step(self, at: Step) -> Losses:
        logits = at.net(at.batch.weak)
        votes.count(at.state, logits, at.batch.labels, self.select(at, "raw", at.batch, logits))
        temporal.write(at.state, at.batch.rows, logits, self.momentum)
        return {"raw": reduce.mean(parse(self.robust)(logits, at.batch.labels))}  # eq. wu

    def main_step(self, at: Step) -> Losses:
        if not self.pseudo:
            logits = at.net(at.batch.view(self.raw_view))
            opinion = self.opinion(at, logits)
            temporal.write(at.state, at.batch.rows, logits, self.momentum)
            return self.raw_losses(at, logits, opinion)
        unlabelled = at.batches["more"] if self.pool == "all" else at.batch
        raw, student, guess, opinion = self.forward(at, unlabelled)
        ramp = ramp_up(at.stage_progress, self.ramp) * votes.trust_in(at.state)
        h = remembered(at.state, reduce.mean_probabilities(student.float().softmax(dim=1)), self.balance_memory)
        return {
            **self.raw_losses(at, raw, opinion),
            **self.pseudo_losses(at, unlabelled, student, guess, self.lambda_S * ramp),
            "balance": self.lambda_R * ramp * class_balance(h, at.state.get("prior")),  # eq. reg
        }

    def forward(self, at: Step, unlabelled: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Logits of raw views, of strong views, and (without gradient) the teacher's of unlabelled and of raw rows."""
        views = [at.batch.view(self.raw_view), unlabelled.strong]
        if views[0] is views[1]:  # labels and pseudo-labels teach on one view of the same rows: one pass is enough
            views.pop()
        if self.teacher == "current" and self.joint_forward and self.mask_view == "weak":
            first, guess, *rest = at.net.together(views[0], unlabelled.weak, *views[1:])
            logits = [first, *rest]
        else:
            logits = [*at.net.together(*views)]
            guess = self.guess(at, unlabelled, logits[-1])
        opinion = guess if unlabelled is at.batch else self.opinion(at, logits[0])
        for batch, said in zip((at.batch, unlabelled), logits, strict=False):  # one view: the batches are one
            temporal.write(at.state, batch.rows, said, self.momentum)
        return logits[0], logits[-1], guess.detach(), opinion.detach()

    def guess(self, at: Step, batch: Batch, said: Tensor) -> Tensor:
        """The teacher's logits of a batch; `said` where it knows nothing yet."""
        if self.teacher == "temporal":
            return temporal.logits_of(at.state, batch.rows, otherwise=said)
        return (at.net.teacher if self.teacher == "average" else at.net.predict)(batch.view(self.mask_view))

    def opinion(self, at: Step, said: Tensor) -> Tensor:
        """The teacher's logits of the labelled batch, if these matter: they may take a pass."""
        return self.guess(at, at.batch, said) if self.anchor(at) == "agreeing" else said

    def anchor(self, at: Step) -> str:
        return "agreeing" if at.progress >= self.late else self.raw_anchor

    def raw_losses(self, at: Step, logits: Tensor, opinion: Tensor) -> Losses:
        """Eq. rn: robust learning on ambiguous rows (or all, or labels `opinion` shares), negative on noisy ones."""
        labels = at.batch.labels
        ambiguous = self.select(at, "raw", at.batch, logits)
        covered = {"ambiguous": ambiguous, "agreeing": votes.shares(opinion, labels, self.shared)}.get(self.anchor(at))
        # The weight is one against self-training: without that there is nothing to weigh against.
        odds = self.pseudo and self.raw_weight == "odds"
        weight = votes.label_weight(at.state, logits, labels, ambiguous) if odds else 1.0
        votes.count(at.state, logits, labels, ambiguous)
        losses = {"raw": weight * self.subset_mean(parse(self.robust)(logits, labels), covered)}
        if self.raw_negative != "none" and self.lambda_N:
            given = self.raw_negative == "given"
            negative = negative_learning(logits, labels) if given else mean_negative(at, logits, labels, self.negatives)
            losses["raw_negative"] = self.lambda_N * self.subset_mean(negative, ~ambiguous)
        return losses

    def pseudo_losses(self, at: Step, batch: Batch, student: Tensor, guess: Tensor, weight: Tensor | float) -> Losses:
        """Eq. pn: positive learning of z on ambiguous rows, negative learning of z_bar on noisy ones."""
        ambiguous = self.select(at, "pseudo", batch, guess)
        z = guess.argmax(dim=1)
        if self.pseudo_positive == "soft":
            positive = kl_divergence(guess, student)
        else:
            positive = (positive_learning if self.pseudo_positive == "ce" else parse(self.robust))(student, z)
        losses = {"pseudo": weight * self.subset_mean(positive, ambiguous)}
        if self.pseudo_negative and self.lambda_N:
            negative = mean_negative(at, student, z, self.negatives)
            losses["pseudo_negative"] = weight * self.lambda_N * self.subset_mean(negative, ~ambiguous)
        return losses

    def select(self, at: Step, name: str, batch: Batch, logits: Tensor) -> Tensor:
        return at.select(name, batch, logits, self.late_tau if at.progress >= self.late else self.tau)  # eq. ss

    def subset_mean(self, values: Tensor, subset: Tensor | None) -> Tensor:
        """1/#subset as the paper writes it, with a floor under the divisor: a handful of rows must not rule a step."""
        return reduce.mean(values, subset, min_share=self.min_share)


def published(setting: Setting) -> Recipe:
    threshold = {} if setting.tau is None else {"tau": ours(setting.tau)}
    return Recipe(PARS, method=robust_loss(setting) | warm_up_length(setting) | threshold)


def literal(setting: Setting) -> Recipe:
    as_written = {name: paper(value) for name, value in LITERAL.items()}
    return Recipe(PARS, method=robust_loss(setting) | warm_up_length(setting) | as_written)


def warm_up_length(setting: Setting) -> dict[str, Cited]:
    """25 of CIFAR-10's 100 epochs, 40 above 60 % noise; 50 on CIFAR-100."""
    epochs = 50 if setting.data == "cifar100" else 40 if setting.rate > 0.6 else 25
    return {} if setting.data == "small" else {"warm_up": paper(epochs)}


ABOUT: dict[str, Any] = {
    "title": "Pseudo-Label Aware Robust Sample Selection",
    "authors": "Goel et al.",
    "year": 2022,
    "link": "https://arxiv.org/abs/2201.10836",
    "needs": ("strong views",),
    "cost": 5.0,
}
ENTRIES = (
    Entry(
        name="pars",
        summary="robust warm-up, then robust and negative learning on given labels, self-training on one's own",
        recipe=published,
        differs="there is no public code; what the paper leaves open is settled by measurement (docs/method.md)",
        **ABOUT,
    ),
    Entry(
        name="pars-paper",
        summary="PARS as its paper writes it",
        recipe=literal,
        differs="there is no public code; the raw negative term takes complementary labels (docs/method.md)",
        **ABOUT | {"cost": 7.0},
    ),
)
