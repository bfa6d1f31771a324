"""Class balance: the mean prediction of a batch should look like the prior (Tanaka et al. 2018; PARS eq. reg)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


def class_balance(mean_probs: Tensor, prior: Tensor | None = None, *, floor: float = 1e-8) -> Tensor:
    """Return Σ_k π_k log(π_k / h_k), h being the mean prediction; π is uniform unless given.

    Shapes: mean_probs [K] (see `mean_probabilities`), prior [K] -> scalar. Classes with π_k = 0 contribute nothing.
    A class with h_k below `floor` gets no gradient.

    >>> class_balance(torch.tensor([0.5, 0.5]))
    tensor(0.)
    >>> class_balance(torch.tensor([0.9, 0.1]))
    tensor(0.5108)
    >>> class_balance(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
    tensor(0.6931)
    """
    h = mean_probs.float().clamp_min(floor)
    if prior is None:
        prior = torch.full_like(h, 1 / len(h))
    pi = prior.to(h)
    return (torch.xlogy(pi, pi) - pi * h.log()).sum()
