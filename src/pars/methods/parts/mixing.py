"""Mixup (Zhang et al. 2018): rows and their targets, combined in pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pars.lazy import F
from pars.losses import cross_entropy, reduce
from pars.method_api import Step

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Mix:
    """One mixing weight λ for a batch, and each row's partner."""

    weight: float
    partner: Tensor  # [B] position in the batch

    def __call__(self, values: Tensor) -> Tensor:
        """λ·v + (1-λ)·v_partner, for views as for targets."""
        return self.weight * values + (1 - self.weight) * values[self.partner]


def draw_mix(step: Step, n: int, alpha: float, *, mostly_first: bool = False) -> Mix:
    """λ ~ Beta(α, α), and a permutation of n rows. `mostly_first`: max(λ, 1-λ), as MixMatch has it."""
    weight = float(step.rng.beta(alpha, alpha))
    return Mix(max(weight, 1 - weight) if mostly_first else weight, step.permutation(n))


def mixup_loss(step: Step, alpha: float) -> Tensor:
    """λ·CE(x̃, y) + (1-λ)·CE(x̃, y_π) over the labeled batch. CE is linear in its target: one, with the mixed target."""
    mix = draw_mix(step, len(step.batch), alpha)
    logits = step.net(mix(step.batch.weak))
    return reduce.mean(cross_entropy(logits, mix(one_hot(step.batch.labels, logits.shape[1]))))


def one_hot(labels: Tensor, n_classes: int) -> Tensor:
    """Float targets [B, K]. Labels must be 0 … K-1."""
    return F.one_hot(labels, n_classes).float()


def sharpen(probabilities: Tensor, temperature: float) -> Tensor:
    """p^(1/T), normalized. Shapes: [B, K] -> [B, K].

    >>> import torch
    >>> sharpen(torch.tensor([[0.75, 0.25]]), 0.5)
    tensor([[0.9000, 0.1000]])
    """
    # In logarithms: p^(1/T) of a small p would be 0/0 for a row that is all small.
    return (probabilities.float().clamp_min(1e-30).log() / temperature).softmax(dim=1)
