"""The weight of pseudo-labels, estimated from given labels of which many are wrong.

Over the confident rows of recent steps we count how often the given label is the network's first, second, … choice.
Labels that are wrong at random fall on all choices equally often, so the excess of the first choice over that floor
estimates how often a confident prediction is right. docs/method.md explains the reasons and the limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import torch
from pars.losses import reduce
from pars.method_api import State

if TYPE_CHECKING:
    from torch import Tensor


def count_label_ranks(state: State, logits: Tensor, labels: Tensor, confident: Tensor) -> None:
    """Count how many given labels of confident rows are the network's first, second, … choice.

    Old counts decay by 1 % per step. Shapes: logits [B, K], labels [B], confident [B] bool. No-op without counts.
    """
    if "label_ranks" not in state:
        return
    given = logits.detach().gather(1, labels[:, None])
    rank = (logits.detach() > given).sum(dim=1)
    new = torch.zeros_like(state["label_ranks"]).index_add_(0, rank, confident.to(state["label_ranks"].dtype))
    state["label_ranks"] = 0.99 * state["label_ranks"] + new


def trust(counts: Tensor | None) -> Tensor | float:
    """Return the weight of self-training: 0 if at most half of the confident predictions are right, 1 from 60 % on.

    Linear in between; 1 for a method without counts.
    """
    return 1.0 if counts is None else ((estimated_accuracy(counts) - 0.5) / 0.1).clamp(0, 1)


def estimated_accuracy(counts: Tensor) -> Tensor:
    """Return the estimated accuracy of confident predictions, from label rank counts [K].

    The floor is the mean count of the lower half of the ranks; the estimate is the first rank's excess over the floor,
    divided by the excess of all ranks. If labels are wrong in one direction, the second choice gets their counts too
    and the estimate is too low. With two classes the second choice is the floor, so the estimate only shows whether
    labels agree with the first choice more often than not.
    """
    floor = counts[len(counts) // 2 :].mean()
    prior = 0.01 * counts.sum() + 1e-6  # if no rank stands out, assume that the first choice is right
    return (counts[0] - floor + prior).clamp_min(0) / ((counts - floor).clamp_min(0).sum() + prior)


def raw_label_weight(state: State, logits: Tensor, labels: Tensor, confident: Tensor) -> Tensor:
    """Return the weight of given labels: from 1 without trust in self-training to their odds with full trust."""
    return 1 - trust(state.get("label_ranks")) * (1 - agreement_odds(logits, labels, confident))


def agreement_odds(logits: Tensor, labels: Tensor, confident: Tensor) -> Tensor:
    """Return the odds that the given label of a confident row agrees with its prediction, at most 1: a scalar.

    Labels that are mostly wrong get a small weight. If at least half of them are right, or hardly any row is confident,
    the odds are 1: a hundredth of the batch is added to both counts.
    """
    agrees = logits.detach().argmax(dim=1) == labels
    agree, disagree = (reduce.mean((which & confident).float()) for which in (agrees, ~agrees))
    return ((agree + 0.01) / (disagree + 0.01)).clamp(max=1)


def label_frequencies(labels: Tensor, n_classes: int) -> Tensor:
    """Return the relative frequency of each class among given labels. Shapes: [n] (-1 = unlabeled) -> [K], float32.

    >>> label_frequencies(torch.tensor([0, 1, -1, 1, 1]), 2)
    tensor([0.2500, 0.7500])
    """
    counts = torch.bincount(labels[labels >= 0], minlength=n_classes)
    return counts.float() / counts.sum()


def denoised_prior(frequencies: Tensor, counts: Tensor) -> Tensor:
    """Return the class prior [K]: label frequencies [K] minus the floor that random wrong labels add to each class.

    Such labels make class sizes look more equal than they are. A class keeps at least a quarter of its frequency: the
    floor is estimated on confident rows and may be too high for the others.

    >>> counts = torch.tensor([8.0, 2.0])                        # 2 of 10 labels are not the network's choice
    >>> denoised_prior(torch.tensor([0.68, 0.32]), counts)       # 0.8·0.8 + 0.2·0.2: one label in five is wrong
    tensor([0.8000, 0.2000])
    """
    floor = counts[len(counts) // 2 :].mean() / counts.sum().clamp_min(1e-6)
    excess = (frequencies - floor).clamp_min(0)
    prior = torch.maximum(excess / excess.sum().clamp_min(1e-6), frequencies / 4)
    return prior / prior.sum()
