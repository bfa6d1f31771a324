"""Dynamic bootstrapping with a Beta mixture on losses (Arazo et al. 2019): trust each label as its loss deserves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pars.lazy import torch
from pars.losses import class_balance, cross_entropy, reduce
from pars.method_api import (
    Cited,
    Entry,
    Epoch,
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
    paper,
)
from pars.methods.parts.loss_mixture import N_BINS, fit_beta_mixture, noisy_probability
from pars.methods.parts.mixing import draw_mix, mixup_loss
from pars.methods.parts.targets import one_hot

if TYPE_CHECKING:
    from torch import Tensor

SUREST = 1e-4  # B stays so far from 0 and 1 once it is fitted: two rows of B = 1 would have no weight to mix by


@dataclass(frozen=True, kw_only=True)
class MCorrection(Method):
    """Mixup; then the label has weight 1 - B and the prediction weight B, the posterior that the label is wrong.

    M-DYR-H bootstraps with predicted classes, M-DYR-S with probabilities. MD-DYR-SH also mixes rows in proportion to
    1 - B, and goes from probabilities to classes.
    """

    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (
        Length("warm_up", "warm_up_share", first_stage=True),
        Length("dynamic", "dynamic_share"),
    )

    variant: Literal["M-DYR-H", "M-DYR-S", "MD-DYR-SH"] = "M-DYR-H"
    alpha: float = 32.0  # δ ~ Beta(α, α) of mixup: near ½
    rho: float = 1.0  # weight of the class balance R
    warm_up: int | None = None  # epochs of mixup; none = `warm_up_share` of the run
    warm_up_share: float = 0.35
    dynamic: int | None = (
        None  # MD-DYR-SH: epochs of dynamic mixup with given labels; none = `dynamic_share` of the run
    )
    dynamic_share: float = 0.02
    T_end: float = 0.001  # MD-DYR-SH: the temperature of predictions falls from 1 to this, epoch by epoch,
    T_share: float = 0.47  # over this share of its last stage

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_positive("alpha")
        self.require_weights("rho")
        self.require_shares("warm_up_share", "dynamic_share", "T_share")
        self.require_positive("T_end", least=1e-6, most=1.0)

    @property
    def mixes_rows(self) -> bool:
        return True

    def stages(self, task: Task) -> tuple[Stage, ...]:
        warm_up = epochs_of(self.warm_up_share, task.epochs, self.warm_up)
        left = task.epochs - warm_up
        first = Stage("mixup", warm_up, self.mixup_step)
        if self.variant != "MD-DYR-SH":
            return first, Stage("bootstrap", left, self.bootstrap_step, before_epoch=self.fit)
        dynamic = min(left, epochs_of(self.dynamic_share, task.epochs, self.dynamic, name="dynamic"))
        cooling = partial(self.soft_to_hard_step, epochs=round(self.T_share * (left - dynamic)))
        return (
            first,
            Stage("dynamic mixup", dynamic, self.dynamic_step, before_epoch=self.fit),
            Stage("soft to hard", left - dynamic, cooling, before_epoch=self.fit),
        )

    def initial_state(self, task: Task) -> State:
        return {
            "bounds": torch.tensor([0.0, 1.0]),
            "table": torch.zeros(N_BINS),  # B by loss: before the first fit no label is doubted
            "noisy": torch.zeros(task.n_rows),  # B of each row at the last fit
        }

    def fit(self, epoch: Epoch) -> None:
        """Fit the mixture to the losses of all labeled rows, as they are trained on: weak views, evaluation mode."""
        rows = epoch.labeled
        losses = cross_entropy(epoch.sweep(rows, "weak").logits, epoch.given[rows])
        split = fit_beta_mixture(losses)
        if split.degenerate:
            epoch.note(kept_last_split=1.0)
            return
        epoch.state["bounds"].copy_(split.bounds)
        epoch.state["table"].copy_(split.table.clamp(SUREST, 1 - SUREST))
        epoch.state["noisy"][rows] = (1 - split.low).float()
        epoch.note(noisy_share=float(1 - split.low.mean()))

    def mixup_step(self, step: Step) -> Losses:
        return {"mixup": mixup_loss(step, self.alpha)}

    def bootstrap_step(self, step: Step) -> Losses:
        """δ·CE(t_p) + (1-δ)·CE(t_q) + ρ·R, t being (1-B)·y + B·z. CE is linear in t: one, of the mixed target."""
        mix = draw_mix(step, len(step.batch), self.alpha)
        noisy, guess = self.doubts(step), step.net.predict(step.batch.weak)
        step.record_selection("clean", step.batch, guess, noisy < 0.5)
        hard = self.variant == "M-DYR-H"
        z = one_hot(guess.argmax(dim=1), guess.shape[1]) if hard else guess.float().softmax(dim=1)
        logits = step.net(mix(step.batch.weak))
        return self.losses(logits, mix(bootstrapped(step.batch.labels, z, noisy)))

    def dynamic_step(self, step: Step) -> Losses:
        """Rows that look noisy are mixed in faintly; labels are the given ones."""
        mix, noisy = draw_mix(step, len(step.batch), self.alpha), self.doubts(step)
        logits = step.net(mix_by_trust(step.batch.weak, noisy, mix.partner))
        step.record_selection("clean", step.batch, logits, noisy < 0.5)
        return {"dynamic": reduce.mean(cross_entropy(logits, mix(one_hot(step.batch.labels, logits.shape[1]))))}

    def soft_to_hard_step(self, step: Step, *, epochs: int) -> Losses:
        """Rows are mixed by trust, their targets half and half; predictions harden over `epochs` epochs."""
        partner, noisy = step.permutation(len(step.batch)), self.doubts(step)
        guess = step.net.predict(step.batch.weak)
        step.record_selection("clean", step.batch, guess, noisy < 0.5)
        done = min(1.0, step.epoch / (epochs - 1)) if epochs > 1 else 1.0
        z = (guess.float() / (1 - done + done * self.T_end)).softmax(dim=1)
        target = bootstrapped(step.batch.labels, z, noisy)
        logits = step.net(mix_by_trust(step.batch.weak, noisy, partner))
        return self.losses(logits, (target + target[partner]) / 2)

    def losses(self, logits: Tensor, target: Tensor) -> Losses:
        losses = {"bootstrap": reduce.mean(cross_entropy(logits, target))}
        if self.rho:
            h = reduce.mean_probabilities(logits.float().softmax(dim=1))
            losses["balance"] = self.rho * class_balance(h)
        return losses

    def doubts(self, step: Step) -> Tensor:
        """B of each row [B]: the posterior of its loss now, measured as the mixture's losses were."""
        losses = cross_entropy(step.net.evaluate(step.batch.weak), step.batch.labels)
        return noisy_probability(losses, step.state["bounds"], step.state["table"])

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        return {"noisy": state["noisy"]}


def bootstrapped(labels: Tensor, z: Tensor, noisy: Tensor) -> Tensor:
    """(1-B)·e_y + B·z. Shapes: labels [B], z [B, K], noisy [B] -> [B, K]."""
    return (1 - noisy)[:, None] * one_hot(labels, z.shape[1]) + noisy[:, None] * z


def mix_by_trust(view: Tensor, noisy: Tensor, partner: Tensor) -> Tensor:
    """Each row and its partner, weighted by 1 - B of either. Shapes: [B, ...], [B], [B] -> [B, ...]."""
    trust = 1 - noisy
    own = (trust / (trust + trust[partner])).view(-1, *[1] * (view.ndim - 1))
    return own * view + (1 - own) * view[partner]


def published(setting: Setting, variant: str) -> Recipe:
    method: dict[str, Cited] = {"variant": paper(variant)}
    if setting.data == "small":
        return Recipe(MCorrection, method=method)
    method |= {"alpha": code(32.0), "rho": code(1.0), "warm_up": code(105)}
    if variant == "MD-DYR-SH":
        method |= {"dynamic": code(5), "T_end": code(0.001), "T_share": code(89 / 190)}
    return Recipe(
        MCorrection,
        method=method,
        train={
            "epochs": code(300),
            "lr": code(0.1),
            "weight_decay": code(1e-4),
            "batch_size": code(128),
            "schedule": code("steps"),
            "milestones": code((100 / 300, 250 / 300)),
            "gamma": code(0.1),
        },
    )


ABOUT: dict[str, Any] = {
    "title": "Unsupervised Label Noise Modeling and Loss Correction",
    "authors": "Arazo et al.",
    "year": 2019,
    "link": "https://arxiv.org/abs/1904.11238",
    "cost": 2.0,
    "differs": (
        "the posterior cannot turn up at small losses; a fit that finds one component only is not used; guessing "
        "leaves BatchNorm's averages alone"
    ),
}
ENTRIES = (
    Entry(
        name="m-correction",
        summary="mixup whose targets are part label, part predicted class, as a Beta mixture on losses has it",
        recipe=partial(published, variant="M-DYR-H"),
        tuned={"alpha": (1.0, 8.0, 32.0), "warm_up_share": (0.15, 0.35)},
        **ABOUT,
    ),
    Entry(
        name="m-dyr-s",
        summary="M-correction with predicted probabilities in place of classes",
        recipe=partial(published, variant="M-DYR-S"),
        **ABOUT,
    ),
    Entry(
        name="md-dyr-sh",
        summary="M-correction that mixes rows by how clean they look, with predictions that harden in time",
        recipe=partial(published, variant="MD-DYR-SH"),
        **ABOUT,
    ),
)
