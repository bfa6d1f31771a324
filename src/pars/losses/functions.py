"""The losses: per-sample functions in float32.

Cross-entropy and its focal variant (Lin et al. 2017) are not bounded by a wrong label. MAE, reverse, symmetric and
generalized cross-entropy are: a wrong label cannot pull them arbitrarily far. Normalized losses, divided by their sum
over all labels, are robust to symmetric noise (Ma et al. 2020). Positive learning says "this row is class z", negative
learning "this row is not class c" (Kim et al. 2019). Class balance: the mean prediction of a batch should look like the
prior (Tanaka et al. 2018).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor
LARGEST_T = 40.0  # of IMAE: e^(T/4) is the largest weight of a row, and half precision ends at e^11


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


def imae(logits: Tensor, labels: Tensor, *, T: float = 8.0) -> Tensor:
    """Return cross-entropy per row, scaled such that its gradient has the L1 norm w = exp(T p_y (1 - p_y)).

    Shapes: logits [B, K], labels [B] -> [B].
    Cross-entropy's norm is 2 (1 - p_y), mean absolute error's 4 p_y (1 - p_y): the first learns most from rows whose
    label is unlikely, the second hardly learns. Here uncertain rows (p_y = 1/2) weigh most, and no row weighs less than
    1. The scale has no gradient: the loss whose gradient this is has no closed form, and the value here is not its own.

    >>> logits = torch.zeros(1, 4, requires_grad=True)                    # p_y = 1/4, w = e^1.5
    >>> imae(logits, torch.tensor([2])).sum().backward()
    >>> logits.grad                                                       # -w/2 for the label, w/2 for all others
    tensor([[ 0.7469,  0.7469, -2.2408,  0.7469]])
    """
    check_imae(T=T)
    log_p = log_prob(logits, labels)
    with torch.no_grad():
        p, not_p = log_p.exp(), -torch.expm1(log_p)
        scale = (T * p * not_p).exp() / (2 * not_p + 1e-6)  # the gradient fades where 1 - p_y is below float32's digits
    return -scale * log_p


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


def check_gamma(loss: str, gamma: float) -> None:
    """Raise a ValueError unless γ is a finite number ≥ 0."""
    if not 0 <= gamma < math.inf:
        raise ValueError(f"{loss}: gamma must be a finite number >= 0, not {gamma}")


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


def check_imae(*, T: float) -> None:
    if not 0 <= T <= LARGEST_T:
        raise ValueError(f"imae: T must be a number from 0 to {LARGEST_T:g}, not {T}")
