"""Rows drawn as often as a loss can still learn from their labels, as far as the network's earlier outputs tell.

A robust loss hardly moves for a label that the network contradicts, and no loss does for one that it has learned. Such
rows cost a pass as any other. Drawn seldom, they leave the passes to rows whose labels teach (as Katharopoulos &
Fleuret 2018 draw by the norm of the gradient, and Mindermann et al. 2022 what is learnable and not yet learnt). Losses
are not divided by how often a row is drawn: what is minimised is another mean than over all rows, and so are all means
and counts over batches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from pars.methods.epoch import Epoch
from pars.methods.stage import State

FLOOR = 0.2  # of an even share: no row is written off, each comes every fifth epoch on average
PerRow = Callable[[Tensor, Tensor], Tensor]


def all_alike(labels: Tensor) -> State:
    """The rows to draw before anything is known: every labelled one, once. Shapes: labels [n], -1 = unlabelled."""
    return {"drawn": (labels >= 0).nonzero()[:, 0]}


def drawn_rows(state: State) -> Tensor:
    """The rows of this epoch, [number of labelled ones]; some are there several times, some not at all."""
    return state["drawn"]


def choose(epoch: Epoch, said: Tensor, loss: PerRow) -> None:
    """Choose an epoch's rows, by what the network said of `epoch.labelled`, in their order: logits [labelled, K]."""
    useful = gradient_norms(loss, said, epoch.given[epoch.labelled])
    epoch.state["drawn"] = redraw(epoch.labelled, useful, epoch.rng)
    epoch.note(distinct_rows=epoch.state["drawn"].bincount().count_nonzero())


def gradient_norms(loss: PerRow, logits: Tensor, labels: Tensor) -> Tensor:
    """How far each row's loss would move its logits. Shapes: [n, K], [n] -> [n].

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


def redraw(rows: Tensor, weights: Tensor, rng: np.random.Generator, *, floor: float = FLOOR) -> Tensor:
    """As many rows again, each in proportion to `floor` + (1 - floor) · its weight over the mean weight.

    A row that should come 1.3 times comes once or twice: there is one draw for all (systematic resampling), so that no
    chance is added to what the weights say. Shapes: rows [n], weights [n] -> [n].

    >>> weights = torch.tensor([0.0, 0.0, 3.0, 3.0, 0.0, 0.0])
    >>> redraw(torch.arange(6), weights, np.random.default_rng(0)).bincount(minlength=6)
    tensor([0, 0, 3, 3, 0, 0])
    """
    order = torch.from_numpy(rng.permutation(len(rows))).to(rows.device)  # or neighbours would share their luck
    weights = weights[order].double()
    expected = floor + (1 - floor) * weights / weights.mean().clamp_min(torch.finfo(torch.float64).tiny)
    ends = (expected.cumsum(0) * (len(rows) / expected.sum()) + rng.random()).floor().long()
    ends[-1] = len(rows)  # however the sum was rounded
    return rows[order].repeat_interleave(ends.diff(prepend=ends.new_zeros(1)))
