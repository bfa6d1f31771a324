"""Targets of a loss made from labels and predictions, and how predictions differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import F, torch
from pars.method_api import Step

if TYPE_CHECKING:
    from torch import Tensor


def one_hot(labels: Tensor, n_classes: int) -> Tensor:
    """Return float targets [B, K] for labels [B], which must be 0 … K-1."""
    return F.one_hot(labels, n_classes).float()


def sharpen(probabilities: Tensor, temperature: float) -> Tensor:
    """Return p^(1/T), normalized. Shapes: [B, K] -> [B, K].

    >>> sharpen(torch.tensor([[0.75, 0.25]]), 0.5)
    tensor([[0.9000, 0.1000]])
    """
    # In logarithms: p^(1/T) would be 0/0 for a row of small values.
    return (probabilities.float().clamp_min(1e-30).log() / temperature).softmax(dim=1)


def mean_softmax(*logits: Tensor) -> Tensor:
    """Return the mean prediction of several views or networks. Shapes: each [B, K] -> [B, K].

    >>> mean_softmax(torch.tensor([[0.0, 0.0]]), torch.tensor([[100.0, 0.0]]))
    tensor([[0.7500, 0.2500]])
    """
    return torch.stack([each.float().softmax(dim=1) for each in logits]).mean(dim=0)


def entropy(logits: Tensor) -> Tensor:
    """Return -Σ_k p_k log p_k per row. Shapes: logits [B, K] -> [B].

    >>> entropy(torch.zeros(1, 4)).exp()
    tensor([4.])
    """
    log_p = logits.float().log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


def kl_divergence(logits: Tensor, other: Tensor) -> Tensor:
    """Return KL(p ‖ q) = Σ_k p_k log(p_k / q_k) per row, with p = softmax(logits) and q = softmax(other).

    Shapes: [B, K], [B, K] -> [B]. Gradients flow into both.

    >>> kl_divergence(torch.tensor([[9.0, 0.0]]), torch.zeros(1, 2)).exp()    # nearly certain, from undecided
    tensor([1.9975])
    """
    log_p, log_q = logits.float().log_softmax(dim=1), other.float().log_softmax(dim=1)
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)


def draw_complements(step: Step, labels: Tensor, n_classes: int, draws: int = 1) -> Tensor:
    """Draw complementary labels (Kim et al. 2019): each uniform over the classes other than the label.

    Shapes: [B] -> [B, draws].
    """
    shift = 1 + step.uniform_integers(n_classes - 1, (len(labels), draws))
    return (labels[:, None] + shift) % n_classes


def complement_counts(step: Step, labels: Tensor, n_classes: int, draws: int) -> Tensor:
    """Draw complementary labels and count them by class. Shapes: [B] -> [B, K], float32."""
    drawn = draw_complements(step, labels, n_classes, draws)
    counts = torch.zeros(len(labels), n_classes, device=labels.device)
    return counts.scatter_add_(1, drawn, torch.ones_like(drawn, dtype=torch.float32))
