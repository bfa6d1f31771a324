"""IMAE (Wang et al. 2019): the direction of mean absolute error's gradient, with a weight chosen for each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import torch
from pars.losses.cross_entropy import log_prob

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_T = 40.0  # e^(T/4) is the largest weight of a row: half precision ends at e^11


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


def check_imae(*, T: float) -> None:
    if not 0 <= T <= LARGEST_T:
        raise ValueError(f"imae: T must be a number from 0 to {LARGEST_T:g}, not {T}")
