"""Positive learning, "this row is class z", and negative learning, "this row is not class c" (Kim et al. 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import torch
from pars.losses.cross_entropy import cross_entropy

if TYPE_CHECKING:
    from torch import Tensor


def positive_learning(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -log p_z per row, z being a pseudo-label (PARS eq. pl, whose print lacks the minus); cross-entropy.

    Shapes: logits [B, K], targets [B] (class numbers) or [B, K] (probabilities) -> [B].

    >>> positive_learning(torch.zeros(1, 4), torch.tensor([2]))
    tensor([1.3863])
    """
    return cross_entropy(logits, targets)


def negative_learning(logits: Tensor, complement: Tensor, *, floor: float = 1e-5) -> Tensor:
    """Return -log(1 - p_c) per row, c being a class the row does *not* have (Kim et al. 2019; PARS eq. nl).

    Shapes: logits [B, K], complement [B] -> [B]; or complement [B, K], weights t of several excluded classes,
    for -Σ_k t_k log(1 - p_k).
    `floor` bounds the loss; at p_c > 1 - floor the gradient is exactly zero.

    >>> negative_learning(torch.zeros(1, 4), torch.tensor([2]))           # p_c = 1/4
    tensor([0.2877])
    >>> negative_learning(torch.zeros(1, 4), torch.tensor([[0, 1, 1, 0]]))
    tensor([0.5754])
    """
    p = logits.float().softmax(dim=1)
    if complement.ndim == 2:
        return -(complement.float() * torch.log((1 - p).clamp_min(floor))).sum(dim=1)
    p_c = p.gather(1, complement[:, None])[:, 0]
    return -torch.log((1 - p_c).clamp_min(floor))
