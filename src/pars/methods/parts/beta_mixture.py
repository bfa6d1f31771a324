"""Two Betas on per-row losses (Arazo et al. 2019), and the probability of being noisy as a function of any loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pars.lazy import torch
from pars.methods.parts.mixture import Split, ordered

if TYPE_CHECKING:
    from torch import Tensor

TRIMMED = 0.05  # of the losses, at either end: the fit is of those between
EDGE = 1e-3  # losses on 0..1 stay so far from the ends, where a Beta may be infinite; and no Beta is narrower
BINS = 100


@dataclass(frozen=True)
class BetaSplit(Split):
    """A fitted mixture, and what `noisy_probability` needs to know of it, in tensors of fixed shape."""

    bounds: Tensor  # [2] the losses that are 0 and 1 to the mixture
    table: Tensor  # [BINS] posterior of the component of large losses, never falling


def beta_split(losses: Tensor, *, iterations: int = 10) -> BetaSplit:
    """Two Betas by EM with weighted moments, on losses between their 5th and 95th percentile. Shapes: [m] -> low [m].

    >>> split = beta_split(torch.tensor([0.1, 0.2, 0.3, 2.0, 2.1, 2.2]))
    >>> split.low.round().tolist(), split.degenerate
    ([1.0, 1.0, 1.0, 0.0, 0.0, 0.0], False)
    """
    values = losses.double()
    bounds = trimmed_range(values)
    x = on_unit(values[(values >= bounds[0]) & (values <= bounds[1])], bounds)
    alpha, beta = x.new_tensor([1.0, 2.0]), x.new_tensor([2.0, 1.0])
    weight = x.new_tensor([0.5, 0.5])
    for _ in range(iterations):
        posterior = _posterior(x, weight, alpha, beta)
        weight = posterior.sum(dim=1) / len(x)
        mean, alpha, beta = _moments(x, posterior)
    centers = (torch.arange(BINS, dtype=x.dtype, device=x.device) + 0.5) / BINS
    fit = ordered(_posterior(centers, weight, alpha, beta), mean, weight)
    start = int(mean.min().nan_to_num() * BINS)  # losses that are not finite have no mean; their split is degenerate
    table = never_falling(1 - fit.low, start=start)
    return BetaSplit(1 - noisy_probability(values, bounds, table), fit.means, fit.weights, bounds, table)


def noisy_probability(losses: Tensor, bounds: Tensor, table: Tensor) -> Tensor:
    """The posterior of the component of large losses, looked up. Shapes: [m], [2], [BINS] -> [m]."""
    x = on_unit(losses.to(bounds.dtype), bounds)
    return table[(x * len(table)).long().clamp(0, len(table) - 1)]


def trimmed_range(losses: Tensor) -> Tensor:
    """The losses [2] of the rows at the 5th and at the 95th percentile: of rows, so that some are always between."""
    order, last = losses.sort().values, len(losses) - 1
    cut = int(TRIMMED * last)
    return order[[cut, last - cut]]


def on_unit(losses: Tensor, bounds: Tensor) -> Tensor:
    """0 at the lower bound, 1 at the upper one; both are kept at a distance, and what lies beyond goes there too."""
    return ((losses - bounds[0]) / (bounds[1] - bounds[0] + 1e-6)).clamp(EDGE, 1 - EDGE)


def never_falling(table: Tensor, *, start: int) -> Tensor:
    """A posterior over rising losses that rises with them, or stays. Shapes: [bins] -> [bins].

    The ratio of two Betas may turn at either end, where there are no losses to fit. Right of its peak it is held, as
    published. Left of `start`, the place of the small losses' mean, it may turn up: there it is held as well, or the
    peak were at loss 0 and every row noisy.

    >>> never_falling(torch.tensor([0.3, 0.1, 0.2, 0.9, 0.4]), start=2)
    tensor([0.1000, 0.1000, 0.2000, 0.9000, 0.9000])
    """
    left = table[: start + 1].flip(0).cummin(dim=0).values.flip(0)
    return torch.cat([left, table[start + 1 :]]).cummax(dim=0).values


def _posterior(x: Tensor, weight: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """E-step: [2, m]."""
    log_norm = torch.lgamma(alpha + beta) - torch.lgamma(alpha) - torch.lgamma(beta)
    powers = (alpha - 1)[:, None] * x.log() + (beta - 1)[:, None] * torch.log1p(-x)
    return ((weight.log() + log_norm)[:, None] + powers).softmax(dim=0).clamp_min(1e-12)


def _moments(x: Tensor, posterior: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """M-step: the mean m of each component, and α = m (m (1-m) / s² - 1), β = α (1-m) / m, s² being its variance."""
    count = posterior.sum(dim=1)
    m = (posterior @ x) / count
    variance = ((x - m[:, None]) ** 2 * posterior).sum(dim=1) / count
    alpha = m * (m * (1 - m) / variance.clamp_min(EDGE**2) - 1)
    return m, alpha, alpha * (1 - m) / m
