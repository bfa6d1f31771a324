"""PARS for short runs from pixels: one pass per row and step, spent on labels that still teach (docs/fast.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pars.losses import parse
from pars.method_api import Batch, Draw, Entry, Epoch, Losses, Recipe, Setting, State, Step, Task
from pars.methods.pars import PARS, stabilized
from pars.methods.pars_paper import ABOUT
from pars.methods.parts import gradient_norm_sampling, prediction_history

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PARSFast(PARS):
    """PARS with strong views for given labels, pseudo-labels from earlier outputs, and label-dependent selection.

    Unlike the paper's, its selection looks at labels: `sampling` draws rows by their label's gradient, and from
    `agreement_start` on only labels that the teacher predicts are trained on. docs/method.md has its ablation.
    """

    pool: Literal["batch", "all"] = "batch"
    """Rows of self-training: the labeled batch itself, in the same pass; or a batch of its own from all rows."""
    temporal_teacher: bool = True
    """Pseudo-labels from the moving average of each row's earlier outputs (Laine & Aila 2017), which costs no pass;
    off: from `teacher`."""
    momentum: float = 0.7  # of that moving average, per visit of a row
    sampling: Literal["gradient-norm", "uniform"] = "gradient-norm"
    """How labeled rows of the main stage are drawn: by the norm of the robust loss's gradient, or alike."""
    agreement_start: float = 1.0  # share of the run after which a label trains only if the teacher predicts it
    agreement_tau: float = 0.8  # τ from there on

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("agreement_start", "agreement_tau")
        self.require(0 <= self.momentum < 1, "momentum", "a number from 0 and below 1")

    def draws(self) -> dict[str, Draw]:
        draws = super().draws() if self.pool == "all" else {}
        if self.sampling == "gradient-norm":
            draws["labeled"] = Draw(gradient_norm_sampling.drawn_rows)
        return draws

    def initial_state(self, task: Task) -> State:
        state = super().initial_state(task)
        if self.sampling == "gradient-norm":
            state |= gradient_norm_sampling.each_row_once(task.labels)
        if self.sampling == "gradient-norm" or self.temporal_teacher:
            state |= prediction_history.initial_ensemble(task.n_rows, task.n_classes)
        return state

    def before_epoch(self, epoch: Epoch) -> None:
        if self.sampling == "gradient-norm":
            logits = prediction_history.ensemble_logits(epoch.state, epoch.labeled)
            gradient_norm_sampling.draw_rows(epoch, logits, parse(self.robust))
        super().before_epoch(epoch)

    def warm_up_step(self, step: Step) -> Losses:
        logits = step.net(step.batch.weak)
        prediction_history.update_ensemble(step.state, step.batch.rows, logits, self.momentum)
        return self.warm_up_losses(step, logits)

    def main_step(self, step: Step) -> Losses:
        labeled = step.batch
        unlabeled = step.batches["unlabeled"] if self.pseudo and self.pool == "all" else labeled
        if unlabeled is labeled:  # given labels and pseudo-labels train on one view of the same rows, in one pass
            raw = student = step.net(labeled.strong)
        else:
            raw, student = step.net.together(labeled.strong, unlabeled.strong)
        by_agreement = step.progress >= self.agreement_start
        teacher = self.teacher_logits(step, unlabeled, student) if self.pseudo or by_agreement else student
        trained = None
        if by_agreement:
            of_labeled = teacher if unlabeled is labeled else self.teacher_logits(step, labeled, raw)
            trained = predicts(of_labeled, labeled.labels)
        prediction_history.update_ensemble(step.state, labeled.rows, raw, self.momentum)
        if unlabeled is not labeled:
            prediction_history.update_ensemble(step.state, unlabeled.rows, student, self.momentum)
        if not self.pseudo:
            return self.raw_losses(step, raw, trained)
        return self.losses(step, raw, unlabeled, student, teacher.detach(), trained)

    def teacher_logits(self, step: Step, batch: Batch, student: Tensor) -> Tensor:
        """The teacher's logits of a batch; the student's for rows without earlier outputs."""
        if self.temporal_teacher:
            return prediction_history.ensemble_logits(step.state, batch.rows, otherwise=student.detach())
        return step.net.teacher(batch.weak) if self.teacher == "average" else step.net.predict(batch.weak)

    def select(self, step: Step, name: str, batch: Batch, logits: Tensor) -> Tensor:
        tau = self.agreement_tau if step.progress >= self.agreement_start else self.tau
        return step.select(name, batch, logits, tau)


def predicts(logits: Tensor, labels: Tensor) -> Tensor:
    """Whether each label is the most probable class. Shapes: logits [B, K], labels [B] -> [B] bool."""
    return logits.gather(1, labels[:, None])[:, 0] >= logits.amax(dim=1)


def fast(setting: Setting) -> Recipe:
    return replace(stabilized(setting), kind=PARSFast)


ENTRIES = (
    Entry(
        name="pars-fast",
        summary="PARS for short runs from pixels: one pass per row and step; its selection is not label-free",
        recipe=fast,
        cost=1.0,
        differs="not the paper's method: its selection looks at labels (docs/fast.md)",
        **ABOUT,
    ),
)
