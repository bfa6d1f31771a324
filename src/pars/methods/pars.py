"""PARS with stabilizers: the paper's method plus six additions (docs/method.md has the effect of each)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pars.lazy import torch
from pars.losses import class_balance, reduce
from pars.method_api import Batch, Entry, Epoch, Losses, Recipe, Setting, Stage, State, Step, Task, ours
from pars.methods.pars_paper import ABOUT, PARSPaper, warm_up_length, weights_of_paper
from pars.methods.parts import pseudo_label_trust
from pars.methods.supervised import robust_loss

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PARS(PARSPaper):
    """PARS (`PARSPaper`) with what made it reliable on small networks and short runs.

    Each of the first six fields is one stabilizer; its other value is the paper's. `prior` is for imbalanced classes.
    """

    robust_rows: Literal["all", "ambiguous"] = "all"
    """Which given labels the robust loss of the main stage covers: few are ambiguous after a weak warm-up."""
    raw_weight: Literal["odds", "one"] = "odds"
    """Weight of that loss: the odds that a given label agrees with a confident prediction, at most 1."""
    trust: Literal["votes", "full"] = "votes"
    """Weight of self-training, class balance included: by how given labels vote on confident predictions, or 1."""
    min_share: float = 1.0
    """Subset means divide by max(#subset, min_share·#batch): 1 is the batch's size, 0 the subset's (eq. rn, pn)."""
    teacher: Literal["average", "current"] = "average"
    """Whose predictions select and label the self-training batch: averaged weights, or those being trained."""
    balance_memory: float = 0.98
    """Decay of the moving mean prediction in eq. reg; 0 is the batch's own."""
    prior: Literal["uniform", "labels"] = "uniform"
    """Class prior π of eq. reg; labels: their frequencies, less what random noise adds. For imbalanced classes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("min_share", "balance_memory")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        warm_up, main = super().stages(task)
        return warm_up, replace(main, before_epoch=self.before_epoch)

    def initial_state(self, task: Task) -> State:
        state: State = {}
        if self.pseudo and self.trust == "votes":
            state["label_ranks"] = torch.zeros(task.n_classes)
        if self.prior == "labels":
            state["prior"] = pseudo_label_trust.label_frequencies(task.labels, task.n_classes)
        if self.pseudo and self.balance_memory:
            uniform = torch.full((task.n_classes,), 1 / task.n_classes)
            state["mean_prediction"] = state.get("prior", uniform).clone()
        return state

    def before_epoch(self, epoch: Epoch) -> None:
        """Log the trust and the estimated accuracy of confident predictions, and update the class prior."""
        if (counts := epoch.state.get("label_ranks")) is None:
            return
        if "prior" in epoch.state:
            frequencies = pseudo_label_trust.label_frequencies(epoch.given, epoch.n_classes)
            epoch.state["prior"] = pseudo_label_trust.denoised_prior(frequencies, counts)
        epoch.note(
            trust=pseudo_label_trust.trust(counts), confident_accuracy=pseudo_label_trust.estimated_accuracy(counts)
        )

    def warm_up_step(self, step: Step) -> Losses:
        return self.warm_up_losses(step, step.net(step.batch.weak))

    def warm_up_losses(self, step: Step, logits: Tensor) -> Losses:
        """Eq. wu; the labels of confident rows are counted, so that trust is known when the main stage begins."""
        confident = self.select(step, "raw", step.batch, logits)
        pseudo_label_trust.count_label_ranks(step.state, logits, step.batch.labels, confident)
        return {"raw": reduce.mean(self.robust_loss(logits, step.batch.labels))}

    def main_step(self, step: Step) -> Losses:
        if not self.pseudo:
            return self.raw_losses(step, step.net(step.batch.weak))
        unlabeled = step.batches["unlabeled"]
        raw, student, teacher = self.forward(step, unlabeled)
        return self.losses(step, raw, unlabeled, student, teacher)

    def forward(self, step: Step, unlabeled: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of raw weak views, of strong views, and the teacher's of weak views (without gradient)."""
        if self.teacher == "current":  # as the paper: one forward for all three
            raw, teacher, student = step.net.together(step.batch.weak, unlabeled.weak, unlabeled.strong)
            return raw, student, teacher.detach()
        raw, student = step.net.together(step.batch.weak, unlabeled.strong)
        return raw, student, step.net.teacher(unlabeled.weak)

    def losses(
        self,
        step: Step,
        raw: Tensor,
        unlabeled: Batch,
        student: Tensor,
        teacher: Tensor,
        trained: Tensor | None = None,
    ) -> Losses:
        """Eq. finalloss, with self-training and class balance weighted by trust; `trained` as in `raw_losses`."""
        trust = pseudo_label_trust.trust(step.state.get("label_ranks"))  # before this batch is counted
        h = self.mean_prediction(step.state, student)
        return {
            **self.raw_losses(step, raw, trained),
            **self.pseudo_losses(step, unlabeled, student, teacher, self.lambda_S * trust),
            "balance": self.lambda_R * trust * class_balance(h, step.state.get("prior")),
        }

    def raw_losses(self, step: Step, logits: Tensor, trained: Tensor | None = None) -> Losses:
        """L_raw; `trained` is the mask [B] of the labels that the robust loss covers, by default as `robust_rows`."""
        labels = step.batch.labels
        ambiguous = self.select(step, "raw", step.batch, logits)
        # The weight balances given labels against self-training; without that there is nothing to balance.
        odds = self.pseudo and self.raw_weight == "odds"
        weight = pseudo_label_trust.raw_label_weight(step.state, logits, labels, ambiguous) if odds else 1.0
        pseudo_label_trust.count_label_ranks(step.state, logits, labels, ambiguous)
        if trained is None and self.robust_rows == "ambiguous":
            trained = ambiguous
        robust = self.subset_mean(self.robust_loss(logits, labels), trained)
        return {"raw": weight * robust, **self.raw_negative_loss(step, logits, ~ambiguous)}

    def subset_mean(self, values: Tensor, subset: Tensor | None) -> Tensor:
        return reduce.mean(values, subset, min_share=self.min_share)

    def mean_prediction(self, state: State, student: Tensor) -> Tensor:
        """Mean prediction [K] over recent batches; its gradient is the present batch's.

        Class counts of one batch are random, and a penalty on its own mean punishes the network for matching them.
        """
        h = reduce.mean_probabilities(student.float().softmax(dim=1))
        if "mean_prediction" not in state:
            return h
        state["mean_prediction"] = torch.lerp(h.detach(), state["mean_prediction"], self.balance_memory)
        return state["mean_prediction"] + (h - h.detach())


def stabilized(setting: Setting) -> Recipe:
    tau = {} if setting.tau is None else {"tau": ours(setting.tau)}
    return Recipe(PARS, method=robust_loss(setting) | warm_up_length(setting) | weights_of_paper(setting) | tau)


ENTRIES = (
    Entry(
        name="pars",
        summary="PARS with stabilizers: the default",
        recipe=stabilized,
        tuned={"tau": (0.6, 0.8, 0.9, 0.95), "robust": ("nce+mae", "10*nce+mae", "gce(q=0.7)")},
        cost=5.0,
        differs="adds six stabilizers to the paper's method, each documented and switchable (docs/method.md)",
        **ABOUT,
    ),
)
