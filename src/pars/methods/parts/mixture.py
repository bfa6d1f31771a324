"""Two-component mixtures of per-row losses, by EM on whole tensors: which rows are in the component of small losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


SMALLEST_GAP = 1e-3  # of the components' means, on losses between 0 and 1: closer ones are one component
EMPTY = 0.5  # rows: a component that weighs less has died out


@dataclass(frozen=True)
class Split:
    """A fitted mixture. Component 0 has the smaller mean."""

    low: Tensor  # [m] posterior probability of the component of small losses
    means: tuple[float, float]
    weights: tuple[float, float]

    @property
    def degenerate(self) -> bool:
        """There are not two components to tell apart."""
        apart = self.means[1] - self.means[0] > SMALLEST_GAP
        return not (apart and min(self.weights) * len(self.low) >= EMPTY)


def normalized(losses: Tensor) -> Tensor:
    """Losses on 0..1, float64; all 0 where they are all equal. Shapes: [m] -> [m]."""
    values = losses.double()
    low, high = values.min(), values.max()
    return (values - low) / (high - low).clamp_min(1e-12)


def gaussian_split(losses: Tensor, *, iterations: int = 10, floor: float = 5e-4, tol: float = 1e-2) -> Split:
    """Two Gaussians on min-max normalized losses, as DivideMix fits them. Shapes: [m] -> low [m].

    EM starts from the best cut of the sorted values (two-means, exactly) and ends when the mean log-likelihood changes
    by less than `tol`; `floor` is added to variances.

    >>> split = gaussian_split(torch.tensor([0.1, 0.2, 0.3, 2.0, 2.1]))
    >>> split.low.round().tolist(), split.degenerate
    ([1.0, 1.0, 1.0, 0.0, 0.0], False)
    """
    x = normalized(losses)
    high = _two_means(x)
    weight, mean, variance = _gaussians(x, torch.stack([~high, high]).double(), floor)
    before = -math.inf
    for _ in range(iterations):
        log_joint = _log_joint(x, weight, mean, variance)
        weight, mean, variance = _gaussians(x, log_joint.softmax(dim=0), floor)
        likelihood = float(log_joint.logsumexp(dim=0).mean())
        if abs(likelihood - before) < tol:
            break
        before = likelihood
    return ordered(_log_joint(x, weight, mean, variance).softmax(dim=0), mean, weight)


def ordered(posterior: Tensor, mean: Tensor, weight: Tensor) -> Split:
    """The split of a fitted mixture. Shapes: posterior [2, m], mean [2], weight [2]."""
    low = int(mean.argmin())
    return Split(
        posterior[low],
        (float(mean[low]), float(mean[1 - low])),
        (float(weight[low]), float(weight[1 - low])),
    )


def _gaussians(x: Tensor, posterior: Tensor, floor: float) -> tuple[Tensor, Tensor, Tensor]:
    """M-step: weights, means and variances [2] of the rows [m], given to the components by [2, m]."""
    count = posterior.sum(dim=1) + 1e-12
    mean = (posterior @ x) / count
    variance = ((x - mean[:, None]) ** 2 * posterior).sum(dim=1) / count + floor
    return count / count.sum(), mean, variance


def _log_joint(x: Tensor, weight: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """E-step: log of weight · density, [2, m]."""
    square = (x - mean[:, None]) ** 2 / variance[:, None]
    return weight.log()[:, None] - 0.5 * (square + (2 * math.pi * variance).log()[:, None])


def _two_means(x: Tensor) -> Tensor:
    """The mask of the upper of two clusters with the least sum of squares: a cut of the sorted values."""
    order = x.sort().values
    n = torch.arange(1, len(x), dtype=x.dtype, device=x.device)
    if not len(n):
        return torch.zeros_like(x, dtype=torch.bool)
    below, total = order.cumsum(0)[:-1], order.sum()
    between = below**2 / n + (total - below) ** 2 / (len(x) - n)  # the larger, the tighter both clusters
    return x > order[int(between.argmax())]
