"""Normalized losses: a loss divided by its sum over all labels is robust to symmetric noise (Ma et al. 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import torch
from pars.losses.cross_entropy import check_gamma

if TYPE_CHECKING:
    from torch import Tensor


def nce(logits: Tensor, labels: Tensor) -> Tensor:
    """Return normalized cross-entropy log p_y / Σ_k log p_k, in (0, 1), per row (Ma et al. 2020).

    Shapes: logits [B, K], labels [B] -> [B]; K >= 2.

    >>> nce(torch.zeros(1, 4), torch.tensor([2]))                         # the loss of each label is the same
    tensor([0.2500])
    """
    log_p = logits.float().log_softmax(dim=1)
    return log_p.gather(1, labels[:, None])[:, 0] / log_p.sum(dim=1)


def nfl(logits: Tensor, labels: Tensor, *, gamma: float = 0.5) -> Tensor:
    """Return normalized focal loss (1-p_y)^γ log p_y / Σ_k (1-p_k)^γ log p_k per row (Ma et al. 2020).

    Shapes: logits [B, K], labels [B] -> [B]; K >= 2.
    The factors are detached in numerator and denominator, as in their code.

    >>> nfl(torch.zeros(1, 4), torch.tensor([2]))
    tensor([0.2500])
    """
    check_gamma("nfl", gamma)
    log_p = logits.float().log_softmax(dim=1)
    not_p = (-torch.expm1(log_p.detach())).clamp_min(0)
    # Dividing every factor by the largest leaves the ratio as it is and keeps a large γ from underflowing to 0 / 0.
    losses = (not_p / not_p.amax(dim=1, keepdim=True)) ** gamma * log_p
    return losses.gather(1, labels[:, None])[:, 0] / losses.sum(dim=1)
