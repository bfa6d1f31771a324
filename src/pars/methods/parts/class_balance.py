"""Class balance: oversampling, selection from each class, and nearest-neighbor votes weighted by class size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import F, torch

if TYPE_CHECKING:
    from torch import Tensor


_SIMILARITIES = 2**25  # held at a time: 128 MB


def oversample_classes(rows: Tensor, labels: Tensor) -> Tensor:
    """Return row numbers in which each class that occurs has as many rows as the largest, by repeating its rows.

    Shapes: rows [m], labels [m] (0 … K-1) -> [classes · largest], sorted by class. Nothing is random.

    >>> oversample_classes(torch.tensor([10, 11, 12, 13, 14]), torch.tensor([2, 0, 2, 2, 0]))
    tensor([11, 14, 11, 10, 12, 13])
    """
    counts = labels.bincount()
    first = counts.cumsum(0) - counts
    first, counts = first[counts > 0], counts[counts > 0]
    if not len(counts):
        return rows
    within_class = torch.arange(int(counts.max()), device=rows.device) % counts[:, None]  # [classes, largest]
    by_class = rows[labels.argsort(stable=True)]
    return by_class[(first[:, None] + within_class).flatten()]


def has_several_classes(labels: Tensor) -> bool:
    """Whether at least two classes occur; a classifier cannot be trained on fewer. Labels [m] must be 0 … K-1."""
    return int(labels.bincount().count_nonzero()) > 1


def smallest_of_each_class(values: Tensor, labels: Tensor, count: int) -> Tensor:
    """Return the mask of the `count` smallest values of each class, all of a class that has fewer. [m], [m] -> [m].

    >>> smallest_of_each_class(torch.tensor([3.0, 1.0, 2.0, 9.0]), torch.tensor([0, 0, 0, 1]), 2)
    tensor([False,  True,  True,  True])
    """
    order = values.argsort(stable=True)
    by_class = order[labels[order].argsort(stable=True)]  # classes in turn, each sorted by value
    counts = labels.bincount()
    rank = torch.arange(len(labels), device=labels.device) - (counts.cumsum(0) - counts)[labels[by_class]]
    return torch.zeros_like(labels, dtype=torch.bool).index_fill_(0, by_class[rank < count], True)


def balanced_vote(features: Tensor, labels: Tensor, *, n_classes: int, k: int) -> Tensor:
    """Return each class's share of the votes of a row's k nearest neighbors by cosine, including the row itself.

    A vote weighs one over the size of its class, because a large class has neighbors everywhere. Rows without a label
    (-1) receive votes but have none; k is at most the number of labeled rows.
    Shapes: features [m, d], labels [m] -> [m, K]; each row sums to 1, or to 0 if no row is labeled.

    >>> angles = torch.tensor([0.0, 0.1, 0.2, 1.5])
    >>> features = torch.stack([angles.cos(), angles.sin()], dim=1)
    >>> balanced_vote(features, torch.tensor([0, 0, 1, 1]), n_classes=2, k=3)[[0, 3]]
    tensor([[0.6667, 0.3333],
            [0.3333, 0.6667]])
    """
    voters = (labels >= 0).nonzero()[:, 0]
    directions = F.normalize(features.float(), dim=1)
    votes = torch.zeros(len(labels), n_classes, device=features.device)
    if len(voters):
        size = max(1, _SIMILARITIES // len(voters))
        for part, (some, own) in enumerate(zip(torch.split(directions, size), torch.split(labels, size), strict=True)):
            similarity = some @ directions[voters].T
            voting = (own >= 0).nonzero()[:, 0]
            # Above every cosine, so that neither rounding nor a row of zeros costs a row its own vote.
            similarity[voting, torch.searchsorted(voters, part * size + voting)] = 2
            nearest = similarity.topk(min(k, len(voters)), dim=1, sorted=False).indices
            classes = labels[voters][nearest]
            votes[part * size : part * size + len(some)].scatter_add_(1, classes, torch.ones_like(classes).float())
    # Whole numbers divided once: tied classes are equal to the last bit.
    weighted = votes / labels[voters].bincount(minlength=n_classes).clamp_min(1)
    return weighted / weighted.sum(dim=1, keepdim=True).clamp_min(1e-30)
