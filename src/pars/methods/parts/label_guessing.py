"""Targets that DivideMix (Li et al. 2020) makes from predictions: co-refined labels and co-guessed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pars.method_api import Network
from pars.methods.parts.targets import mean_softmax, one_hot, sharpen

if TYPE_CHECKING:
    from torch import Tensor


def refine_labels(labels: Tensor, clean: Tensor, logits: Sequence[Tensor], temperature: float) -> Tensor:
    """Return sharpen(w·e_y + (1-w)·p), p being the mean prediction of a network over some views.

    w is the probability, by the other network, that the label is clean.
    Shapes: labels [B], clean [B], each of the logits [B, K] -> [B, K].

    >>> import torch
    >>> refine_labels(torch.tensor([0]), torch.tensor([0.5]), [torch.zeros(1, 2)], temperature=0.5)
    tensor([[0.9000, 0.1000]])
    """
    w = clean.float()[:, None]
    return sharpen(w * one_hot(labels, logits[0].shape[1]) + (1 - w) * mean_softmax(*logits), temperature)


def co_guess(net: Network, peer: Network, views: Sequence[Tensor], temperature: float) -> Tensor:
    """Return what both networks guess for unlabeled rows, for `net` to learn. Shapes: views [B, ...] -> [B, K].

    Its own predictions normalize by the batch, as in training; the peer answers as in evaluation.
    """
    return guess_labels([f(view) for f in (net.predict, peer.evaluate) for view in views], temperature)


def guess_labels(logits: Sequence[Tensor], temperature: float) -> Tensor:
    """Return the sharpened mean prediction over views and networks. Shapes: each of the logits [B, K] -> [B, K].

    >>> import torch
    >>> guess_labels([torch.zeros(1, 2), torch.tensor([[100.0, 0.0]])], temperature=0.5)    # of 3/4 and 1/4
    tensor([[0.9000, 0.1000]])
    """
    return sharpen(mean_softmax(*logits), temperature)
