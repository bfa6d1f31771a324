"""Two-component mixtures of per-row losses, by EM on whole tensors: which rows are in the component of small losses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

SMALLEST_GAP = 1e-3  # of the components' means, on losses between 0 and 1: closer ones are one component


@dataclass(frozen=True)
class Split:
    """A fitted mixture. Component 0 has the smaller mean."""

    low: Tensor  # [m] posterior probability of the component of small losses
    means: tuple[float, float]
    weights: tuple[float, float]

    @property
    def degenerate(self) -> bool:
        """There are not two components to tell apart."""
        return not self.means[1] - self.means[0] > SMALLEST_GAP


def normalised(losses: Tensor) -> Tensor:
    """Losses on 0..1, float64; all 0 where they are all equal. Shapes: [m] -> [m]."""
    values = losses.double()
    low, high = values.min(), values.max()
    return (values - low) / (high - low).clamp_min(1e-12)


def gaussian_split(losses: Tensor, *, iterations: int = 10, floor: float = 5e-4, tol: float = 1e-2) -> Split:
    """Two Gaussians on min-max normalised losses, as DivideMix fits them. Shapes: [m] -> low [m].

    EM starts from the best cut of the sorted values (two-means, exactly); `floor` is added to variances.
    """
    x = normalised(losses)
    high = _two_means(x)
    resp = torch.stack([~high, high]).double()  # [2, m]
    log_posterior, before = resp.log(), -math.inf
    for _ in range(iterations):
        count = resp.sum(dim=1) + 1e-12
        mean = (resp @ x) / count
        variance = ((x - mean[:, None]) ** 2 * resp).sum(dim=1) / count + floor
        log_joint = (count / len(x)).log()[:, None] - 0.5 * (
            (x - mean[:, None]) ** 2 / variance[:, None] + (2 * math.pi * variance).log()[:, None]
        )
        evidence = log_joint.logsumexp(dim=0)
        log_posterior = log_joint - evidence
        resp = log_posterior.exp()
        likelihood = float(evidence.mean())
        if abs(likelihood - before) < tol:
            break
        before = likelihood
    return _ordered(resp, mean, count / len(x))


def _two_means(x: Tensor) -> Tensor:
    """The mask of the upper of two clusters with the least sum of squares: a cut of the sorted values."""
    order = x.sort().values
    n = torch.arange(1, len(x), dtype=x.dtype, device=x.device)
    if not len(n):
        return torch.zeros_like(x, dtype=torch.bool)
    below, total = order.cumsum(0)[:-1], order.sum()
    between = below**2 / n + (total - below) ** 2 / (len(x) - n)  # the larger, the tighter both clusters
    return x > order[int(between.argmax())]


def _ordered(resp: Tensor, mean: Tensor, weight: Tensor) -> Split:
    low = int(mean.argmin())
    return Split(
        resp[low],
        (float(mean[low]), float(mean[1 - low])),
        (float(weight[low]), float(weight[1 - low])),
    )
