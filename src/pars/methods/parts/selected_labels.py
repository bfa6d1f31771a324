"""Given labels that the network predicts with confidence, and the semi-supervised finish of NLNL (Kim et al. 2019).

A label is selected if the mean of the network's last ten probabilities of it reaches a threshold. The finish trains a
fresh network on the selected labels, and another on the first one's averaged predictions for every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from pars.lazy import torch
from pars.losses import cross_entropy, reduce
from pars.method_api import Epoch, Losses, Method, Stage, State, Step, Task, epochs_of
from pars.methods.parts import prediction_history

if TYPE_CHECKING:
    from torch import Tensor


def check_settings(
    method: Method, *, ln_neg: int | None, lengths: Sequence[float], stages: int, lr2: float | None
) -> None:
    """Refuse draws, lengths of stages and a learning rate of the finish that cannot be."""
    number = {3: "three", 5: "five"}[stages]
    method.require(ln_neg is None or 1 <= ln_neg <= 1000, "ln_neg", "a number of draws from 1 to 1000")
    right = len(lengths) == stages and min(lengths) >= 0 and 0 < sum(lengths) < float("inf")
    method.require(right, "lengths", f"{number} numbers of at least 0, not all 0")
    method.require(lr2 is None or 0 < lr2 <= 1e6, "lr2", "a learning rate above 0")


def split_epochs(lengths: Sequence[float], epochs: int) -> list[int]:
    """Return the epochs of each stage, the lengths being in relation to each other.

    >>> split_epochs((1000, 480, 480), 60)
    [31, 14, 15]
    """
    ends = [epochs_of(end / sum(lengths), epochs, name="lengths") for end in accumulate(lengths)]
    return [end - start for start, end in pairwise([0, *ends])]


def initial_selection(task: Task, *, weigh_classes: bool, history: int = prediction_history.LENGTH) -> State:
    """Return the state before training: every label is selected, and no prediction is stored yet.

    history: number of predictions that are stored for each row.
    weigh_classes: weigh classes by w_c = largest count / count, of the given labels; otherwise all by 1.
    """
    counts = task.labels[task.labels >= 0].bincount(minlength=task.n_classes)
    weights = torch.where(counts > 0, counts.max() / counts.clamp_min(1), 1.0)
    return {
        "class_weights": weights if weigh_classes else torch.ones(task.n_classes),
        "selected": torch.ones(task.n_rows, dtype=torch.bool),
        **prediction_history.initial_history(task.n_rows, task.n_classes, history),
    }


def select_labels(epoch: Epoch, threshold: float) -> None:
    """Before an epoch: select the labels whose mean probability reaches the threshold; the last choice if none does.

    It is the probability *of the given label*, p_y, that counts, not the largest one.
    """
    rows = epoch.labeled
    p_y = prediction_history.mean_prediction(epoch.state, rows).gather(1, epoch.given[rows][:, None])[:, 0]
    selected = p_y >= threshold
    if selected.any():
        epoch.state["selected"][rows] = selected
    else:
        epoch.note(kept_last_split=1.0)
    epoch.note(selected=float(epoch.state["selected"][rows].float().mean()))


def selected_mean(step: Step, logits: Tensor, losses: Tensor) -> Tensor:
    """Return the mean of class-weighted losses [B] over selected rows. Every row's prediction goes into the history."""
    rows = step.batch.rows
    selected = step.state["selected"][rows]
    prediction_history.add_to_history(step.state, rows, logits)
    step.record_selection("selected", step.batch, logits, selected)
    return reduce.mean(step.state["class_weights"][step.batch.labels] * losses, selected)


def positive_step(step: Step) -> Losses:
    """Cross-entropy on selected labels."""
    logits = step.net(step.batch.weak)
    return {"positive": selected_mean(step, logits, cross_entropy(logits, step.batch.labels))}


def soft_step(step: Step) -> Losses:
    """-Σ_k w_k s_k log p_k, s being the mean prediction of the previous network for the row."""
    logits = step.net(step.batch.weak)
    soft = prediction_history.mean_prediction(step.state, step.batch.rows)
    step.record_selection("agrees", step.batch, logits, soft.argmax(dim=1) == step.batch.labels)
    return {"soft": reduce.mean(cross_entropy(logits, step.state["class_weights"] * soft))}


def finish(epochs: tuple[int, int], *, threshold: float, lr: float | None) -> tuple[Stage, Stage]:
    """Return the two stages of the semi-supervised finish, of so many epochs.

    threshold: of p_y, from which a label is selected. lr: that both begin with; none = the run's.
    """
    train: dict[str, object] = {"schedule": "steps", "milestones": (0.4, 0.6), "gamma": 0.1}
    train |= {} if lr is None else {"lr": lr}

    def begin(epoch: Epoch) -> None:
        if epoch.index == 0:
            select_labels(epoch, threshold)
            prediction_history.clear_history(epoch.state)  # from here on it is the fresh network's

    return (
        Stage("selected", epochs[0], positive_step, before_epoch=begin, restart="all", train=train),
        Stage("soft labels", epochs[1], soft_step, restart="all", train=train),
    )
