"""Two-component mixtures of per-row losses, fitted by EM: which rows belong to the component of small losses.

`fit_gaussian_mixture` is DivideMix's. `fit_beta_mixture` (Arazo et al. 2019) also gives the probability that a row is
noisy as a function of its loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[np.float64]

N_BINS = 100  # entries of the table of a Beta mixture
_SMALLEST_GAP = 1e-3  # between the means, on losses in 0..1: closer components are one
_EMPTY = 0.5  # rows: a component with less weight is empty
_TRIMMED = 0.05  # fraction of the losses at either end that the Beta fit ignores
_EDGE = 1e-3  # losses in 0..1 keep this distance from the ends, where a Beta may be infinite; also its least width


@dataclass(frozen=True)
class LossMixture:
    """A fitted mixture. Component 0 has the smaller mean."""

    low: Tensor  # [m] posterior probability of the component of small losses
    means: tuple[float, float]
    weights: tuple[float, float]

    @property
    def degenerate(self) -> bool:
        """Whether the losses do not separate into two components."""
        apart = self.means[1] - self.means[0] > _SMALLEST_GAP
        return not (apart and min(self.weights) * len(self.low) >= _EMPTY)


@dataclass(frozen=True)
class BetaMixture(LossMixture):
    """A fitted Beta mixture, with the two tensors of fixed shape that `noisy_probability` reads."""

    bounds: Tensor  # [2] the losses that the mixture maps to 0 and 1
    table: Tensor  # [N_BINS] posterior of the component of large losses, non-decreasing


def fit_gaussian_mixture(
    losses: Tensor, *, iterations: int = 10, floor: float = 5e-4, tol: float = 1e-2, normalize: bool = True
) -> LossMixture:
    """Fit two Gaussians to min-max normalized losses, as DivideMix does. Shapes: [m] -> low [m].

    EM starts from the best split of the sorted values (exact 2-means) and stops when the mean log-likelihood changes by
    less than `tol`; `floor` is added to variances. `normalize` off is for losses that are normalized already, or a mean
    of such.

    >>> mixture = fit_gaussian_mixture(torch.tensor([0.1, 0.2, 0.3, 2.0, 2.1]))
    >>> mixture.low.round().tolist(), mixture.degenerate
    ([1.0, 1.0, 1.0, 0.0, 0.0], False)
    """
    # In numpy: 1.5 times as fast as in torch on a CPU (benchmarks/mixture.py); a GPU would wait for each likelihood.
    x: Array = (min_max_normalize(losses) if normalize else losses.double()).cpu().numpy()
    high = _two_means(x)
    weight, mean, variance = _gaussian_parameters(x, np.stack([~high, high]).astype(np.float64), floor)
    before = -math.inf
    for _ in range(iterations):
        posterior, likelihood = _gaussian_posterior(x, weight, mean, variance)
        weight, mean, variance = _gaussian_parameters(x, posterior, floor)
        if abs(likelihood - before) < tol:
            break
        before = likelihood
    final, _ = _gaussian_posterior(x, weight, mean, variance)
    return _sorted_mixture(torch.from_numpy(final).to(losses.device), mean, weight)


def fit_beta_mixture(losses: Tensor, *, iterations: int = 10) -> BetaMixture:
    """Fit two Betas by EM with weighted moments, to losses between the 5th and 95th percentile. Shapes: [m] -> low [m].

    >>> mixture = fit_beta_mixture(torch.tensor([0.1, 0.2, 0.3, 2.0, 2.1, 2.2]))
    >>> mixture.low.round().tolist(), mixture.degenerate
    ([1.0, 1.0, 1.0, 0.0, 0.0, 0.0], False)
    """
    values = losses.double()
    bounds = trimmed_range(values)
    x = to_unit_interval(values[(values >= bounds[0]) & (values <= bounds[1])], bounds)
    alpha, beta = x.new_tensor([1.0, 2.0]), x.new_tensor([2.0, 1.0])
    weight = x.new_tensor([0.5, 0.5])
    for _ in range(iterations):
        posterior = _beta_posterior(x, weight, alpha, beta)
        weight = posterior.sum(dim=1) / len(x)
        mean, alpha, beta = _beta_parameters(x, posterior)
    centers = (torch.arange(N_BINS, dtype=x.dtype, device=x.device) + 0.5) / N_BINS
    fit = _sorted_mixture(_beta_posterior(centers, weight, alpha, beta), mean, weight)
    start = int(mean.min().nan_to_num() * N_BINS)  # losses that are not finite have no mean: a degenerate mixture
    table = make_non_decreasing(1 - fit.low, start=start)
    return BetaMixture(1 - noisy_probability(values, bounds, table), fit.means, fit.weights, bounds, table)


def noisy_probability(losses: Tensor, bounds: Tensor, table: Tensor) -> Tensor:
    """Return the posterior of the component of large losses, from its table. Shapes: [m], [2], [N_BINS] -> [m]."""
    x = to_unit_interval(losses.to(bounds.dtype), bounds)
    return table[(x * len(table)).long().clamp(0, len(table) - 1)]


def min_max_normalize(losses: Tensor) -> Tensor:
    """Return losses scaled to 0..1, in float64; all 0 if they are all equal. Shapes: [m] -> [m]."""
    values = losses.double()
    low, high = values.min(), values.max()
    return (values - low) / (high - low).clamp_min(1e-12)


def trimmed_range(losses: Tensor) -> Tensor:
    """Return the losses [2] at the 5th and 95th percentile: values of two rows, so that some rows lie between."""
    order, last = losses.sort().values, len(losses) - 1
    cut = int(_TRIMMED * last)
    return order[[cut, last - cut]]


def make_non_decreasing(table: Tensor, *, start: int) -> Tensor:
    """Make a posterior over increasing losses non-decreasing. Shapes: [bins] -> [bins].

    The ratio of two Betas may turn at either end, where there are no losses to fit. To the right of its peak it is held
    constant, as published. To the left of `start`, the bin of the small losses' mean, it may turn up; there it is held
    constant, too. Otherwise the peak would be at loss 0 and every row noisy.

    >>> make_non_decreasing(torch.tensor([0.3, 0.1, 0.2, 0.9, 0.4]), start=2)
    tensor([0.1000, 0.1000, 0.2000, 0.9000, 0.9000])
    """
    left = table[: start + 1].flip(0).cummin(dim=0).values.flip(0)
    return torch.cat([left, table[start + 1 :]]).cummax(dim=0).values


def _sorted_mixture(posterior: Tensor, mean: Tensor | Array, weight: Tensor | Array) -> LossMixture:
    """Return the mixture with its components sorted by mean. Shapes: posterior [2, m], mean [2], weight [2]."""
    low = int(mean.argmin())
    return LossMixture(
        posterior[low],
        (float(mean[low]), float(mean[1 - low])),
        (float(weight[low]), float(weight[1 - low])),
    )


def _gaussian_parameters(x: Array, posterior: Array, floor: float) -> tuple[Array, Array, Array]:
    """M-step: weights, means and variances [2], from values [m] and posterior [2, m]."""
    count = posterior.sum(axis=1) + 1e-12
    mean = (posterior @ x) / count
    variance = ((x - mean[:, None]) ** 2 * posterior).sum(axis=1) / count + floor
    return count / count.sum(), mean, variance


def _gaussian_posterior(x: Array, weight: Array, mean: Array, variance: Array) -> tuple[Array, float]:
    """E-step: the posterior [2, m], and the mean log-likelihood."""
    square = (x - mean[:, None]) ** 2 / variance[:, None]
    log_joint = (np.log(weight) - 0.5 * np.log(2 * math.pi * variance))[:, None] - 0.5 * square
    largest = log_joint.max(axis=0)
    joint = np.exp(log_joint - largest)
    total = joint.sum(axis=0)
    return joint / total, float((np.log(total) + largest).mean())


def _two_means(x: Array) -> npt.NDArray[np.bool_]:
    """Return the mask of the upper of two clusters with the least sum of squares: a split of the sorted values."""
    order = np.sort(x)
    n = np.arange(1, len(x))
    if not len(n):
        return np.zeros(len(x), dtype=bool)
    below, total = order.cumsum()[:-1], order.sum()
    between = below**2 / n + (total - below) ** 2 / (len(x) - n)  # the larger, the tighter both clusters
    upper: npt.NDArray[np.bool_] = x > order[int(between.argmax())]
    return upper


def to_unit_interval(losses: Tensor, bounds: Tensor) -> Tensor:
    """Map the lower bound to 0 and the upper one to 1, clamped to a small distance from both."""
    return ((losses - bounds[0]) / (bounds[1] - bounds[0] + 1e-6)).clamp(_EDGE, 1 - _EDGE)


def _beta_posterior(x: Tensor, weight: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """E-step: [2, m]."""
    log_norm = torch.lgamma(alpha + beta) - torch.lgamma(alpha) - torch.lgamma(beta)
    powers = (alpha - 1)[:, None] * x.log() + (beta - 1)[:, None] * torch.log1p(-x)
    return ((weight.log() + log_norm)[:, None] + powers).softmax(dim=0).clamp_min(1e-12)


def _beta_parameters(x: Tensor, posterior: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """M-step: the mean m of each component, and α = m (m (1-m) / s² - 1), β = α (1-m) / m, with its variance s²."""
    count = posterior.sum(dim=1)
    m = (posterior @ x) / count
    variance = ((x - m[:, None]) ** 2 * posterior).sum(dim=1) / count
    alpha = m * (m * (1 - m) / variance.clamp_min(_EDGE**2) - 1)
    return m, alpha, alpha * (1 - m) / m
