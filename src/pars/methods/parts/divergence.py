"""How unsure a prediction is, and how far it is from another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def entropy(logits: Tensor) -> Tensor:
    """Return -Σ_k p_k log p_k per row. Shapes: logits [B, K] -> [B].

    >>> import torch
    >>> entropy(torch.zeros(1, 4)).exp()
    tensor([4.])
    """
    log_p = logits.float().log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


def kl_divergence(logits: Tensor, other: Tensor) -> Tensor:
    """Return KL(p ‖ q) = Σ_k p_k log(p_k / q_k) per row, of softmax(logits) from softmax(other).

    Shapes: [B, K], [B, K] -> [B]. Gradients flow into both.

    >>> import torch
    >>> kl_divergence(torch.tensor([[9.0, 0.0]]), torch.zeros(1, 2)).exp()    # all but sure, from undecided
    tensor([1.9975])
    """
    log_p, log_q = logits.float().log_softmax(dim=1), other.float().log_softmax(dim=1)
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)
