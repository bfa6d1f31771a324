"""PARS as its paper writes it: Algorithm 1 of Goel, Jiao & Massiah 2022 (appendix "Algorithm of PARS")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pars.losses import class_balance, negative_learning, parse, positive_learning, reduce
from pars.method_api import (
    LARGEST_RATIO,
    Batch,
    Cited,
    Draw,
    Entry,
    Length,
    Losses,
    Method,
    Recipe,
    Setting,
    Stage,
    Step,
    Task,
    epochs_of,
    ours,
    paper,
    third_party,
)
from pars.methods.parts.targets import draw_complements

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PARSPaper(Method):
    """Pseudo-Label Aware Robust Sample Selection, in the paper's symbols and with the paper's ablations.

    One term is not read literally: `raw_negative`. Eq. rn lowers the probability of the *given* label of unconfident
    rows. Selection ignores labels, so these labels are right about as often as any others, and the literal term
    unlearns them (docs/method.md has the measurement). The default draws y_bar among the other classes.

    Where the paper says nothing: z comes from the weak view, as in FixMatch, in one forward pass with all other views;
    "w/o L_pseudo" drops L_reg with it, which has no other batch to act on; runs on data that the paper does not have
    warm up for `warm_up_share` of their epochs.
    """

    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (Length("warm_up", "warm_up_share", first_stage=True),)

    tau: float = 0.95  # τ: a row is ambiguous if its confidence exceeds this, else noisy (eq. ss)
    lambda_S: float = 1.0  # λ_S: self-training (eq. finalloss)
    lambda_N: float = 0.1  # λ_N: negative learning (eq. rn, pn)
    lambda_R: float = 1.0  # λ_R: class balance, the paper's confidence penalty (eq. reg)
    mu: float = 3.0  # size of the self-training batch over that of the labeled batch
    robust: str = "nce+mae"  # L_RL (eq. rl, wu, rn)
    warm_up: int | None = None  # w_e, in epochs; none: `warm_up_share` of the run
    warm_up_share: float = 0.4  # ours: the paper has epochs for CIFAR only (`warm_up_length`)

    pseudo: bool = True  # off: "PARS w/o L_pseudo"; the class balance regularizes that loss and is off, too
    raw_negative: Literal["complement", "given", "none"] = "complement"  # y_bar of eq. rn: see above
    pseudo_negative: bool = True  # off, with raw_negative="none": "PARS w/o NL"
    pseudo_positive: Literal["ce", "robust"] = "ce"  # robust: the appendix's "robust loss on corrected labels"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("tau", "warm_up_share")
        self.require_weights("lambda_S", "lambda_N", "lambda_R")
        self.require_positive("mu", most=LARGEST_RATIO)
        parse(self.robust)

    def stages(self, task: Task) -> tuple[Stage, ...]:
        w_e = epochs_of(self.warm_up_share, task.epochs, self.warm_up)
        return (
            Stage("warm-up", w_e, self.warm_up_step),  # lines 2-4
            Stage("main", task.epochs - w_e, self.main_step, self.draws()),  # lines 5-16
        )

    def draws(self) -> dict[str, Draw]:
        """The batches of the main stage beside the labeled one."""
        return {"unlabeled": Draw("all", self.mu)} if self.pseudo else {}

    def warm_up_step(self, step: Step) -> Losses:
        logits = step.net(step.batch.weak)
        self.select(step, "raw", step.batch, logits)  # for the log only
        return {"raw": reduce.mean(self.robust_loss(logits, step.batch.labels))}  # line 3, eq. wu

    def main_step(self, step: Step) -> Losses:
        if not self.pseudo:
            return self.raw_losses(step, step.net(step.batch.weak))
        unlabeled = step.batches["unlabeled"]
        raw, teacher, student = step.net.together(step.batch.weak, unlabeled.weak, unlabeled.strong)
        h = reduce.mean_probabilities(student.float().softmax(dim=1))
        return {  # line 15, eq. finalloss: the engine adds them up
            **self.raw_losses(step, raw),
            **self.pseudo_losses(step, unlabeled, student, teacher.detach(), self.lambda_S),
            "balance": self.lambda_R * class_balance(h),  # line 14, eq. reg
        }

    def raw_losses(self, step: Step, logits: Tensor) -> Losses:
        """L_raw (line 10, eq. rn): robust learning on ambiguous rows, negative learning on noisy rows."""
        ambiguous = self.select(step, "raw", step.batch, logits)
        robust = self.robust_loss(logits, step.batch.labels)
        return {"raw": self.subset_mean(robust, ambiguous), **self.raw_negative_loss(step, logits, ~ambiguous)}

    def raw_negative_loss(self, step: Step, logits: Tensor, noisy: Tensor) -> Losses:
        if self.raw_negative == "none" or not self.lambda_N:
            return {}
        given = step.batch.labels
        y_bar = given if self.raw_negative == "given" else draw_complements(step, given, logits.shape[1])[:, 0]
        return {"raw_negative": self.lambda_N * self.subset_mean(negative_learning(logits, y_bar), noisy)}

    def pseudo_losses(
        self, step: Step, batch: Batch, student: Tensor, teacher: Tensor, lambda_S: float | Tensor
    ) -> Losses:
        """λ_S·L_pseudo (lines 12-13, eq. pseudo, pn): positive learning of z if ambiguous, negative of z_bar if noisy.

        `teacher` are logits of weak views [B, K], which give z and the selection; `student` those of strong views.
        """
        ambiguous = self.select(step, "pseudo", batch, teacher)
        z = teacher.argmax(dim=1)  # eq. pseudo
        positive = positive_learning(student, z) if self.pseudo_positive == "ce" else self.robust_loss(student, z)
        losses = {"pseudo": lambda_S * self.subset_mean(positive, ambiguous)}
        if self.pseudo_negative and self.lambda_N:
            z_bar = draw_complements(step, z, student.shape[1])[:, 0]  # eq. pseudo
            negative = self.subset_mean(negative_learning(student, z_bar), ~ambiguous)
            losses["pseudo_negative"] = lambda_S * self.lambda_N * negative
        return losses

    def select(self, step: Step, name: str, batch: Batch, logits: Tensor) -> Tensor:
        """D_A (lines 7-8, eq. ss): the mask [B] of ambiguous rows; the others are D_N. Labels play no part."""
        return step.select(name, batch, logits, self.tau)

    def robust_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return parse(self.robust)(logits, labels)

    def subset_mean(self, values: Tensor, subset: Tensor | None) -> Tensor:
        """1/|D_A| Σ or 1/|D_N| Σ: the mean over a subset of the batch, 0 if it is empty."""
        return reduce.mean(values, subset)


def published(setting: Setting) -> Recipe:
    method = robust_loss_of_paper(setting) | warm_up_length(setting) | weights_of_paper(setting)
    return Recipe(PARSPaper, method=method)


def weights_of_paper(setting: Setting) -> dict[str, Cited]:
    """λ_N is smaller on Clothing1M; the size of its self-training batch is not given."""
    return {"lambda_N": paper(0.01), "mu": ours(1.0)} if setting.data == "clothing1m" else {}


def robust_loss_of_paper(setting: Setting) -> dict[str, Cited]:
    """L_RL of the appendix: NCE + MAE, weighted 10 to 1 in the recipe of CIFAR-100; SCE on Clothing1M.

    SCE is meant "as in its paper", whose values are not public; these are of a later paper's code.
    """
    if setting.data == "clothing1m":
        return {"robust": third_party("sce(alpha=10,beta=1,A=-9.21)")}
    return {"robust": paper("10*nce+mae" if setting.data == "cifar100" else "nce+mae")}


def warm_up_length(setting: Setting) -> dict[str, Cited]:
    """25 of CIFAR-10's 100 epochs, 40 above 60 % noise; 50 on CIFAR-100, 10 on Clothing1M."""
    if setting.data == "clothing1m":
        return {"warm_up": paper(10)}
    epochs = 50 if setting.data == "cifar100" else 40 if setting.rate > 0.6 else 25
    return {} if setting.data == "small" else {"warm_up": paper(epochs)}


ABOUT: dict[str, Any] = {
    "title": "Pseudo-Label Aware Robust Sample Selection",
    "authors": "Goel et al.",
    "year": 2022,
    "link": "https://arxiv.org/abs/2201.10836",
    "needs": ("strong views",),
}
ENTRIES = (
    Entry(
        name="pars-paper",
        summary="PARS as published: Algorithm 1 with the paper's settings, one term read differently",
        recipe=published,
        tuned={"tau": (0.6, 0.8, 0.9, 0.95), "robust": ("nce+mae", "10*nce+mae", "gce(q=0.7)")},
        cost=7.0,
        differs="there is no public code; the raw negative term draws complementary labels (docs/method.md)",
        **ABOUT,
    ),
)
