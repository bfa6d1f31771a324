"""Votes of nearest neighbors in feature space, each class counted by its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import F, torch

if TYPE_CHECKING:
    from torch import Tensor


CELLS = 2**25  # similarities held at a time: 128 MB


def balanced_vote(features: Tensor, labels: Tensor, *, n_classes: int, k: int) -> Tensor:
    """Share of each class in the votes of a row's k nearest neighbors by cosine, itself among them.

    A vote weighs one over the number of rows of its class: a large class is everybody's neighbor. Rows without a label
    (-1) are given votes and have none; k is at most the number of rows that vote.
    Shapes: features [m, d], labels [m] -> [m, K]; each row sums to 1, or to 0 where nobody votes.

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
        size = max(1, CELLS // len(voters))
        for part, (some, own) in enumerate(zip(torch.split(directions, size), torch.split(labels, size), strict=True)):
            similarity = some @ directions[voters].T
            voting = (own >= 0).nonzero()[:, 0]
            # Above every cosine: rounding, or a row of zeros, must not cost a row its own vote.
            similarity[voting, torch.searchsorted(voters, part * size + voting)] = 2
            nearest = similarity.topk(min(k, len(voters)), dim=1, sorted=False).indices
            classes = labels[voters][nearest]
            votes[part * size : part * size + len(some)].scatter_add_(1, classes, torch.ones_like(classes).float())
    # Whole numbers divided once: two classes that are tied are equal to the last bit.
    weighed = votes / labels[voters].bincount(minlength=n_classes).clamp_min(1)
    return weighed / weighed.sum(dim=1, keepdim=True).clamp_min(1e-30)
