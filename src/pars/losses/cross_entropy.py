"""Cross-entropy and its focal variant (Lin et al. 2017): losses that are not bounded by a wrong label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


def log_prob(logits: Tensor, labels: Tensor) -> Tensor:
    """Return log p_y per row in float32. Shapes: logits [B, K], labels [B] -> [B]."""
    return logits.float().log_softmax(dim=1).gather(1, labels[:, None])[:, 0]


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -log p_y per row, or -Σ_k t_k log p_k for soft targets.

    Shapes: logits [B, K], targets [B] (class numbers) or [B, K] (probabilities) -> [B].

    >>> cross_entropy(torch.zeros(1, 4), torch.tensor([2]))               # p_y = 1/4
    tensor([1.3863])
    >>> cross_entropy(torch.zeros(1, 4), torch.tensor([[0.5, 0.5, 0.0, 0.0]]))
    tensor([1.3863])
    """
    if targets.ndim == 2:
        return -(targets.float() * logits.float().log_softmax(dim=1)).sum(dim=1)
    return -log_prob(logits, targets)


def focal(logits: Tensor, labels: Tensor, *, gamma: float = 0.5) -> Tensor:
    """Return -(1 - p_y)^γ log p_y per row (Lin et al. 2017), the factor detached as in Ma et al. 2020's code.

    Shapes: logits [B, K], labels [B] -> [B].
    The factor is a weight, not part of what is minimized: its own gradient is infinite at p_y = 1 for γ < 1.

    >>> focal(torch.zeros(1, 4), torch.tensor([2]), gamma=2)              # (3/4)^2 log 4
    tensor([0.7798])
    """
    check_gamma("focal", gamma)
    log_p = log_prob(logits, labels)
    return -modulation(log_p, gamma) * log_p


def modulation(log_p: Tensor, gamma: float) -> Tensor:
    """Return (1 - p)^γ without gradient, elementwise; the clamp keeps a rounding error below 0 from becoming NaN."""
    return (-torch.expm1(log_p.detach())).clamp_min(0) ** gamma


def check_gamma(loss: str, gamma: float) -> None:
    """Raise a ValueError unless γ is a finite number ≥ 0."""
    if not 0 <= gamma < float("inf"):
        raise ValueError(f"{loss}: gamma must be a finite number >= 0, not {gamma}")
