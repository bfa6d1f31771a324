"""How often predictions of a given confidence are right, as the given labels say together though many are wrong.

Robust losses leave a network less sure than it is right: at 80 % symmetric noise it may be right in nine of ten rows
whose class it gives a probability of 0.4. Labels that are wrong at random agree with a right prediction in a share r of
cases, and with a wrong one in a share f, as with any other wrong class; so of predictions that labels agree with in a
share a of cases, (a - f) / (r - f) are right, where r = 1 - (K - 1)·f.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pars.methods.stage import State
from pars.methods.step import Batch, Step

BINS = 100  # of confidence, from 0 to 1
FADE = (0.99, 0.99, 0.999, 0.999)  # of old counts, each time that some are added; noise stays, while networks learn


def empty(*names: str) -> State:
    """Nothing counted yet for some selections: [BINS, 4] of rows and labels that agree, of rows and labels in the lower
    half of the choices."""
    return {f"reliability_{name}": torch.zeros(BINS, 4) for name in names}


def select(at: Step, name: str, batch: Batch, logits: Tensor, tau: float, precision: float) -> Tensor:
    """Eq. ss with tau, or with a precision above 0 what labels let stand for it; they never say which rows are sure."""
    if precision:
        count(at.state, name, logits.detach(), batch.labels)
    return at.select(name, batch, logits, threshold(at.state, name, logits.shape[1], tau, precision))


@torch.no_grad()
def count(state: State, name: str, logits: Tensor, labels: Tensor) -> None:
    """Add some predictions of a selection; rows without a label (-1) do not count. Shapes: [B, K], [B]."""
    counts = state[f"reliability_{name}"]
    confidence = logits.float().softmax(dim=1).amax(dim=1)
    rank = (logits > logits.gather(1, labels.clamp_min(0)[:, None])).sum(dim=1)  # 0: the label is what is predicted
    one = torch.ones_like(rank)
    what = torch.stack([one, rank == 0, one, rank >= logits.shape[1] // 2], dim=1)
    here = what.to(counts.dtype) * (labels >= 0)[:, None]
    added = torch.zeros_like(counts).index_add_(0, _bin(confidence), here)
    state[f"reliability_{name}"] = counts.new_tensor(FADE) * counts + added


def threshold(state: State, name: str, n_classes: int, tau: float, precision: float) -> float | Tensor:
    """The lowest confidence such that a share of `precision` of all predictions at least as sure are right.

    By one standard error, so that few labels prove nothing; tau where no confidence is proved or nothing is counted,
    and at most. f is what labels say of the lower half of the choices, for the surer half of the rows: there the truth
    is in the upper half. Where labels are wrong in one direction f is small, and predictions that are right are taken
    for wrong: the threshold is then too high.
    """
    if f"reliability_{name}" not in state:
        return tau
    counts = state[f"reliability_{name}"]
    rows, agree, ever, lower = counts.flip(0).cumsum(dim=0).flip(0).T  # of each bin and all surer ones
    half, choices = (ever >= ever[0] / 2).sum() - 1, n_classes - n_classes // 2
    f, f_error = (each / choices for each in _share(lower[half], ever[half]))
    a, a_error = _share(agree, rows)
    margin = a - f - precision * (1 - n_classes * f)  # r - f = 1 - K·f
    error = torch.hypot(a_error, (precision * n_classes - 1) * f_error)
    proved = (rows > 0) & (margin >= error) & (n_classes * f < 1)
    lowest = torch.arange(BINS, device=counts.device) / BINS
    return torch.where(proved, lowest, tau).amin().clamp(max=tau)


def _share(some: Tensor, of: Tensor) -> tuple[Tensor, Tensor]:
    """A share and its standard error, which 3 of 3 do not make 0."""
    likely, n = (some + 1) / (of + 2), of.clamp_min(1e-6)
    return some / n, (likely * (1 - likely) / n).sqrt()


def _bin(confidence: Tensor) -> Tensor:
    return (confidence * BINS).long().clamp(max=BINS - 1)
