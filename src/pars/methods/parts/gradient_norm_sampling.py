"""Draw rows in proportion to the gradient norm of their loss (Katharopoulos & Fleuret 2018).

The gradient of a robust loss vanishes for a label that the network contradicts, and the gradient of any loss vanishes
for a label that it has learned. Such rows cost as much as others and change nothing, so they are drawn rarely (compare
Mindermann et al. 2022). Losses are not reweighted by the drawing probability: the objective, and every mean and count
over batches, is over the drawn rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from pars.lazy import torch
from pars.method_api import Epoch, State

if TYPE_CHECKING:
    from torch import Tensor

FLOOR = 0.2  # of the uniform probability: every row is drawn at least every fifth epoch on average
PerRow = Callable[["Tensor", "Tensor"], "Tensor"]


def each_row_once(labels: Tensor) -> State:
    """Return the state before training: every labeled row once. Shapes: labels [n], -1 = unlabeled."""
    return {"drawn": (labels >= 0).nonzero()[:, 0]}


def drawn_rows(state: State) -> Tensor:
    """Return the rows of this epoch [n_labeled]; a row may occur several times or not at all."""
    return state["drawn"]


def draw_rows(epoch: Epoch, logits: Tensor, loss: PerRow) -> None:
    """Draw the rows of an epoch, from the logits [n_labeled, K] of `epoch.labeled`."""
    norms = gradient_norms(loss, logits, epoch.given[epoch.labeled])
    epoch.state["drawn"] = systematic_resample(epoch.labeled, norms, epoch.rng)
    epoch.note(distinct_rows=epoch.state["drawn"].bincount().count_nonzero())


def gradient_norms(loss: PerRow, logits: Tensor, labels: Tensor) -> Tensor:
    """Return the norm of the gradient of each row's loss with respect to its logits. Shapes: [n, K], [n] -> [n].

    >>> from pars.losses import cross_entropy
    >>> logits = torch.tensor([[0.0, 0.0], [3.0, 0.0]])
    >>> gradient_norms(cross_entropy, logits, torch.tensor([0, 0]))  # √2·(1 - p_y)
    tensor([0.7071, 0.0671])
    """
    with torch.enable_grad():
        leaf = logits.detach().float().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(leaf, labels).sum(), leaf)
    norms: Tensor = gradient.norm(dim=1)
    return norms


def systematic_resample(rows: Tensor, weights: Tensor, rng: np.random.Generator, *, floor: float = FLOOR) -> Tensor:
    """Draw n of n rows, each in proportion to floor + (1 - floor) · weight / mean weight.

    Systematic resampling: one random number for all rows, so that a row expected 1.3 times occurs once or twice.
    Shapes: rows [n], weights [n] -> [n].

    >>> weights = torch.tensor([0.0, 0.0, 3.0, 3.0, 0.0, 0.0])
    >>> systematic_resample(torch.arange(6), weights, np.random.default_rng(0)).bincount(minlength=6)
    tensor([0, 0, 3, 3, 0, 0])
    """
    order = torch.from_numpy(rng.permutation(len(rows))).to(
        rows.device
    )  # otherwise the counts of neighbors would depend on each other
    weights = weights[order].double()
    expected = floor + (1 - floor) * weights / weights.mean().clamp_min(torch.finfo(torch.float64).tiny)
    ends = (expected.cumsum(0) * (len(rows) / expected.sum()) + rng.random()).floor().long()
    ends[-1] = len(rows)  # whatever the rounding of the sum
    return rows[order].repeat_interleave(ends.diff(prepend=ends.new_zeros(1)))
