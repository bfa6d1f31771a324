"""Losses a wrong label cannot pull arbitrarily far: MAE, reverse, symmetric and generalized cross-entropy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pars.lazy import torch
from pars.losses.cross_entropy import log_prob

if TYPE_CHECKING:
    from torch import Tensor


def mae(logits: Tensor, labels: Tensor) -> Tensor:
    """Return 1 - p_y per row: half the L1 distance between p and the one-hot label (Ghosh et al. 2017).

    Shapes: logits [B, K], labels [B] -> [B].

    >>> mae(torch.zeros(1, 4), torch.tensor([2]))                         # p_y = 1/4
    tensor([0.7500])
    """
    return -torch.expm1(log_prob(logits, labels))  # keeps its digits where p_y is near 1


def rce(logits: Tensor, labels: Tensor, *, A: float = -4.0) -> Tensor:
    """Return reverse cross-entropy -Σ_k p_k log e_k = -A (1 - p_y) per row, A for log 0 (Wang et al. 2019).

    Shapes: logits [B, K], labels [B] -> [B].
    Their code and Ma et al.'s clamp the one-hot label at 1e-4, which is A = -9.2103; the paper says -4.

    >>> rce(torch.zeros(1, 4), torch.tensor([2]))
    tensor([3.])
    """
    check_rce(A=A)
    return -A * mae(logits, labels)


def sce(logits: Tensor, labels: Tensor, *, alpha: float = 0.1, beta: float = 1.0, A: float = -4.0) -> Tensor:
    """Return symmetric cross-entropy α CE + β RCE(A) per row (Wang et al. 2019).

    Shapes: logits [B, K], labels [B] -> [B].
    The defaults are those for CIFAR-10; CIFAR-100 uses α = 6, β = 0.1.

    >>> sce(torch.zeros(1, 4), torch.tensor([2]))                         # 0.1 log 4 + 4 · 3/4
    tensor([3.1386])
    """
    check_sce(alpha=alpha, beta=beta, A=A)
    return alpha * -log_prob(logits, labels) + beta * rce(logits, labels, A=A)


def gce(logits: Tensor, labels: Tensor, *, q: float = 0.7) -> Tensor:
    """Return (1 - p_y^q) / q per row: cross-entropy for q → 0, MAE at q = 1 (Zhang & Sabuncu 2018).

    Shapes: logits [B, K], labels [B] -> [B].

    >>> gce(torch.zeros(1, 4), torch.tensor([2]), q=0.5)                  # (1 - 1/2) / 0.5
    tensor([1.])
    """
    check_gce(q=q)
    # p^q through its logarithm: the gradient of p**q is infinite where p underflows, that of exp(q log p) is 0.
    return -torch.expm1(q * log_prob(logits, labels)) / q


def check_rce(*, A: float) -> None:
    if not -math.inf < A < 0:
        raise ValueError(f"rce: A must be a finite number < 0 (it stands for log 0), not {A}")


def check_sce(*, alpha: float, beta: float, A: float) -> None:
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not 0 <= value < math.inf:
            raise ValueError(f"sce: {name} must be a finite number >= 0, not {value}")
    check_rce(A=A)


def check_gce(*, q: float) -> None:
    if not 0 < q <= 1:
        raise ValueError(f"gce: q must be in (0, 1], not {q}")
