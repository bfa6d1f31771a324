"""NLNL (Kim et al. 2019): learn what a row is not, then from the given labels that the network predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pars.losses import negative_learning
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
)
from pars.methods.parts import prediction_history, selected_labels
from pars.methods.parts.targets import complement_counts

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class NLNL(Method):
    """Negative learning (NL), on selected labels only (SelNL), positive learning (SelPL), semi-supervised finish.

    A label is selected by the mean of the network's last probabilities *of the given label*, p_y. The finish
    trains a fresh network on the selected labels, and another on the first one's averaged predictions for every row.
    """

    epoch_constants: ClassVar[Mapping[str, EpochConstant]] = {"history": "length"}

    ln_neg: int | None = None  # complementary labels drawn per row and step; none = 1.1 per class
    gamma: float = 0.5  # p_y from which SelPL selects a label; of SelNL it is 1/K
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
        self.require_shares("gamma")
        selected_labels.check_settings(self, ln_neg=self.ln_neg, lengths=self.lengths, stages=5, lr2=self.lr2)

    def stages(self, task: Task) -> tuple[Stage, ...]:
        nl, sel_nl, sel_pl, first, second = selected_labels.split_epochs(self.lengths, task.epochs)

        def select_above_chance(epoch: Epoch) -> None:
            selected_labels.select_labels(epoch, 1 / epoch.n_classes)

        def select_confident(epoch: Epoch) -> None:
            selected_labels.select_labels(epoch, self.gamma)

        return (
            Stage("NL", nl, self.negative_step),
            Stage("SelNL", sel_nl, self.negative_step, before_epoch=select_above_chance),
            Stage("SelPL", sel_pl, selected_labels.positive_step, before_epoch=select_confident),
            *selected_labels.finish((first, second), threshold=self.gamma, lr=self.lr2),
        )

    def initial_state(self, task: Task) -> State:
        history = self.at_length(task.epochs).history
        return selected_labels.initial_selection(task, weigh_classes=self.class_weights, history=history)

    def negative_step(self, step: Step) -> Losses:
        """-w_y · Σ log(1 - p_ȳ) over draws ȳ, uniform over the classes other than the given one."""
        logits = step.net(step.batch.weak)
        n_classes = logits.shape[1]
        drawn = complement_counts(step, step.batch.labels, n_classes, self.ln_neg or round(1.1 * n_classes))
        return {"negative": selected_labels.selected_mean(step, logits, negative_learning(logits, drawn))}

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
        summary="learns what rows are not, then confidently predicted labels, then its own averaged predictions",
        cost=1.0,
        recipe=published,
        differs="a history that is not full yet is averaged over what is in it; pixels are also divided by their "
        "standard deviation",
    ),
)
