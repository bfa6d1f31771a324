"""NLNL (Kim et al. 2019): learn what a row is not, then trust the given labels that the network has come to believe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, ClassVar

from pars.lazy import torch
from pars.losses import cross_entropy, negative_learning, reduce
from pars.method_api import (
    Entry,
    Epoch,
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
    epochs_of,
)
from pars.methods.parts import prediction_history
from pars.methods.parts.targets import draw_complements

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class NLNL(Method):
    """Negative learning (NL), on believed labels only (SelNL), positive learning (SelPL), semi-supervised finish.

    A label is believed by the mean of the network's last probabilities *of the given label*, p_y. The finish
    trains a fresh network on the believed labels, and another on the first one's averaged predictions for every row.
    """

    epoch_constants: ClassVar[Mapping[str, EpochConstant]] = {"history": "length"}

    ln_neg: int | None = None  # complementary labels drawn per row and step; none = 1.1 per class
    gamma: float = 0.5  # p_y from which SelPL believes a label; of SelNL it is 1/K
    lengths: tuple[float, ...] = (720, 720, 720, 480, 480)
    """Of NL, SelNL, SelPL and the finish's two stages, in relation to each other."""
    lr2: float | None = None  # learning rate that the finish's stages begin with; none = the run's
    history: int = 10  # latest predictions of a row that are averaged
    reference_epochs: int | None = None  # epochs of the run that `history` is meant for; none = any
    class_weights: bool = True  # weigh classes by w_c = largest count / count, of the given labels

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_reference()
        self.require(1 <= self.history <= 1000, "history", "a whole number from 1 to 1000")
        self.require(self.ln_neg is None or 1 <= self.ln_neg <= 1000, "ln_neg", "a number of draws from 1 to 1000")
        self.require_shares("gamma")
        right = len(self.lengths) == 5 and min(self.lengths) >= 0 and 0 < sum(self.lengths) < float("inf")
        self.require(right, "lengths", "five numbers of at least 0, not all 0")
        self.require(self.lr2 is None or 0 < self.lr2 <= 1e6, "lr2", "a learning rate above 0")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        ends = [epochs_of(end / sum(self.lengths), task.epochs, name="lengths") for end in accumulate(self.lengths)]
        nl, sel_nl, sel_pl, first, second = (end - start for start, end in pairwise([0, *ends]))
        finish: dict[str, object] = {"schedule": "steps", "milestones": (0.4, 0.6), "gamma": 0.1}
        finish |= {} if self.lr2 is None else {"lr": self.lr2}

        def believe_above_chance(epoch: Epoch) -> None:
            self.believe(epoch, 1 / epoch.n_classes)

        def believe_the_sure(epoch: Epoch) -> None:
            self.believe(epoch, self.gamma)

        def begin_finish(epoch: Epoch) -> None:
            if epoch.index == 0:
                self.believe(epoch, self.gamma)
                prediction_history.clear_history(epoch.state)  # from here on it is the fresh network's

        return (
            Stage("NL", nl, self.negative_step),
            Stage("SelNL", sel_nl, self.negative_step, before_epoch=believe_above_chance),
            Stage("SelPL", sel_pl, self.positive_step, before_epoch=believe_the_sure),
            Stage("believed", first, self.positive_step, before_epoch=begin_finish, restart="all", train=finish),
            Stage("soft labels", second, self.soft_step, restart="all", train=finish),
        )

    def initial_state(self, task: Task) -> State:
        counts = task.labels[task.labels >= 0].bincount(minlength=task.n_classes)
        weights = torch.where(counts > 0, counts.max() / counts.clamp_min(1), 1.0)
        return {
            "class_weights": weights if self.class_weights else torch.ones(task.n_classes),
            "believed": torch.ones(task.n_rows, dtype=torch.bool),
            **prediction_history.initial_history(task.n_rows, task.n_classes, self.at_length(task.epochs).history),
        }

    def negative_step(self, step: Step) -> Losses:
        """-w_y · Σ log(1 - p_ȳ) over draws ȳ, uniform over the classes other than the given one."""
        logits, labels = step.net(step.batch.weak), step.batch.labels
        n_classes = logits.shape[1]
        draws = round(1.1 * n_classes) if self.ln_neg is None else self.ln_neg
        others = draw_complements(step, labels, n_classes, draws)
        drawn = torch.zeros_like(logits, dtype=torch.float32).scatter_add_(
            1, others, torch.ones_like(others, dtype=torch.float32)
        )  # [B, K] how often
        return {"negative": self.believed_mean(step, logits, negative_learning(logits, drawn))}

    def positive_step(self, step: Step) -> Losses:
        logits = step.net(step.batch.weak)
        return {"positive": self.believed_mean(step, logits, cross_entropy(logits, step.batch.labels))}

    def believed_mean(self, step: Step, logits: Tensor, losses: Tensor) -> Tensor:
        """The weighted losses of believed rows, by their number. Every row's prediction goes into the history."""
        rows = step.batch.rows
        believed = step.state["believed"][rows]
        prediction_history.add_to_history(step.state, rows, logits)
        step.record_selection("believed", step.batch, logits, believed)
        return reduce.mean(step.state["class_weights"][step.batch.labels] * losses, believed)

    def soft_step(self, step: Step) -> Losses:
        """-Σ_k w_k s_k log p_k, s being the mean of what the network before it said of the row."""
        logits = step.net(step.batch.weak)
        soft = prediction_history.mean_prediction(step.state, step.batch.rows)
        step.record_selection("agrees", step.batch, logits, soft.argmax(dim=1) == step.batch.labels)
        return {"soft": reduce.mean(cross_entropy(logits, step.state["class_weights"] * soft))}

    def believe(self, epoch: Epoch, threshold: float) -> None:
        rows = epoch.labeled
        p_y = prediction_history.mean_prediction(epoch.state, rows).gather(1, epoch.given[rows][:, None])[:, 0]
        believed = p_y >= threshold
        if believed.any():
            epoch.state["believed"][rows] = believed
        else:
            epoch.note(kept_last_split=1.0)
        epoch.note(believed=float(epoch.state["believed"][rows].float().mean()))

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        return {"history_mean": prediction_history.mean_prediction(state)}


def published(setting: Setting) -> Recipe:
    epochs = 3 * 720 + 2 * 480
    if setting.data == "small":
        return Recipe(NLNL, method={"history": code(10), "reference_epochs": code(epochs)})
    return Recipe(
        NLNL,
        method={
            "ln_neg": code(110 if setting.data == "cifar100" else 1),
            "lr2": code(0.1),
            "reference_epochs": code(epochs),
        },
        train={
            "epochs": code(epochs),
            "lr": code(0.02),
            "schedule": code("constant"),
            "weight_decay": code(1e-4),
            "batch_size": code(128),
        },
    )


ENTRIES = (
    Entry(
        name="nlnl",
        title="NLNL: Negative Learning for Noisy Labels",
        authors="Kim et al.",
        year=2019,
        link="https://arxiv.org/abs/1908.07387",
        summary="learns what rows are not, then the labels it has come to believe, then its own averaged predictions",
        cost=1.0,
        recipe=published,
        differs="a history that is not full yet is averaged over what is in it; pixels are also divided by their "
        "standard deviation",
    ),
)
