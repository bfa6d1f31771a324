"""What given labels, many of them wrong, say together about a network's sure predictions."""

from __future__ import annotations

import torch
from torch import Tensor

from pars.losses import reduce
from pars.methods.epoch import Epoch
from pars.methods.stage import State


def none_yet(n_classes: int) -> State:
    """The counts of a run that is about to begin."""
    return {"votes": torch.zeros(n_classes)}


def count(state: State, logits: Tensor, labels: Tensor, sure: Tensor) -> None:
    """Count how many given labels of sure rows are the network's first, second, … choice; if votes are kept at all.

    Old counts fade by 1 % each time. Shapes: logits [B, K], labels [B], sure [B] bool.
    """
    if "votes" not in state:
        return
    given = logits.detach().gather(1, labels[:, None])
    rank = (logits.detach() > given).sum(dim=1)
    here = torch.zeros_like(state["votes"]).index_add_(0, rank, sure.to(state["votes"].dtype))
    state["votes"] = 0.99 * state["votes"] + here


def take_stock(epoch: Epoch) -> None:
    """Once an epoch: say what the votes have come to, and how common classes are by them, if that is asked for."""
    if (votes := epoch.state.get("votes")) is None:
        return
    if "prior" in epoch.state:
        epoch.state["prior"] = without_floor(label_shares(epoch.given, epoch.n_classes), votes)
    epoch.note(trust=trust(votes), sure_and_right=accuracy(votes))


def trust_in(state: State) -> Tensor | float:
    """How far self-training counts: by the votes, wholly where none are kept."""
    return trust(state["votes"]) if "votes" in state else 1.0


def label_weight(state: State, logits: Tensor, labels: Tensor, sure: Tensor) -> Tensor:
    """What given labels weigh beside self-training: their odds where that is trusted, 1 where it is not."""
    return 1 - trust_in(state) * (1 - label_odds(logits, labels, sure))


def label_odds(logits: Tensor, labels: Tensor, sure: Tensor) -> Tensor:
    """How many labels of sure rows agree with the prediction for each that does not, at most 1: a scalar in 0..1.

    Labels that are mostly wrong then weigh little against what the network is sure of; where half of them or more are
    right, or where hardly a row is sure, they weigh 1 (a hundredth of the batch is added to both counts).
    """
    agrees = logits.detach().argmax(dim=1) == labels
    agree, disagree = (reduce.mean((which & sure).float()) for which in (agrees, ~agrees))
    return ((agree + 0.01) / (disagree + 0.01)).clamp(max=1)


def shares(opinion: Tensor, labels: Tensor, share: float) -> Tensor:
    """Whether an opinion finds a label at least so likely, measured by its first choice. Shapes: [B, K], [B] -> [B].

    At 1 a label has to be the first choice. Where labels are wrong at random, one that is nearly as likely is right
    more often than the first choice is: a wrong label seldom falls on the second choice.

    >>> opinion = torch.tensor([[0.5, 0.4, 0.1]]).log().expand(3, 3)
    >>> shares(opinion, torch.tensor([0, 1, 2]), 0.5)
    tensor([ True,  True, False])
    """
    given = opinion.gather(1, labels[:, None])[:, 0]
    return (given - opinion.amax(dim=1)).exp() >= share


def accuracy(votes: Tensor) -> Tensor:
    """How often a sure prediction is right, as the given labels have it, though most of them may be wrong.

    Labels that are wrong at random fall on all choices alike: what the first choice has above that floor, of what all
    choices have above it, is the share of first choices that are right. The floor is the mean of the lower half. Where
    labels are wrong in one direction the second choice gets their votes too, and the estimate is too low. Of two
    classes the second choice is the floor: all that shows is whether labels agree with the first more often than not.
    """
    floor = votes[len(votes) // 2 :].mean()
    few = 0.01 * votes.sum() + 1e-6  # where nothing stands out, nothing speaks against the first choice
    return (votes[0] - floor + few).clamp_min(0) / ((votes - floor).clamp_min(0).sum() + few)


def trust(votes: Tensor) -> Tensor:
    """0 where half of the sure predictions or more are wrong, 1 where three of five are right."""
    return ((accuracy(votes) - 0.5) / 0.1).clamp(0, 1)


def label_shares(labels: Tensor, n_classes: int) -> Tensor:
    """How common each given label is: [n], -1 = unlabelled -> [K], float32.

    >>> label_shares(torch.tensor([0, 1, -1, 1, 1]), 2)
    tensor([0.2500, 0.7500])
    """
    counts = torch.bincount(labels[labels >= 0], minlength=n_classes)
    return counts.float() / counts.sum()


def without_floor(shares: Tensor, votes: Tensor) -> Tensor:
    """How common each class is, if labels wrong at random gave every class the floor of the votes. Shapes: [K] -> [K].

    Such labels make classes look more alike than they are. A class keeps about a quarter of its share among labels:
    the floor is estimated on rows that the network is sure of, and may be too high for the rest.

    >>> votes = torch.tensor([8.0, 2.0])                    # of ten labels two are not the network's choice
    >>> without_floor(torch.tensor([0.68, 0.32]), votes)    # 0.8 of 0.8 + 0.2 of 0.2: one in five of each is wrong
    tensor([0.8000, 0.2000])
    """
    floor = votes[len(votes) // 2 :].mean() / votes.sum().clamp_min(1e-6)
    left = (shares - floor).clamp_min(0)
    found = torch.maximum(left / left.sum().clamp_min(1e-6), shares / 4)
    return found / found.sum()
