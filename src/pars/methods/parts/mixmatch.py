"""MixMatch (Berthelot et al. 2019) with one's own targets: labeled and unlabeled rows mixed with one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pars.lazy import torch
from pars.losses import cross_entropy, reduce
from pars.method_api import Network, Step
from pars.methods.parts.mixing import draw_mix

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Matched:
    """What a network said of mixed rows, and the mixed targets: first those that are mostly a labeled row."""

    logits: Tensor  # [m, K]
    targets: Tensor  # [m, K]
    n_labeled: int

    def cross_entropy(self, class_weights: Tensor | None = None) -> Tensor:
        """Σ_k c_k · mean(-t_k log p_k) over the labeled part; c = 1 unless class weights [K] are given."""
        logits, targets = self.logits[: self.n_labeled], self.targets[: self.n_labeled]
        # A weighted target is no distribution; -Σ_k c_k t_k log p_k is what is meant all the same.
        return reduce.mean(cross_entropy(logits, targets if class_weights is None else class_weights * targets))

    def squared_error(self) -> Tensor:
        """The mean of (p_k - t_k)² over rows and classes of the unlabeled part: no wrong guess costs much."""
        p = self.logits[self.n_labeled :].float().softmax(dim=1)
        return reduce.mean(((p - self.targets[self.n_labeled :]) ** 2).mean(dim=1))


def mixmatch(
    step: Step,
    net: Network,
    labeled: Sequence[Tensor],
    labeled_targets: Tensor,
    unlabeled: Sequence[Tensor],
    unlabeled_targets: Tensor,
    *,
    alpha: float,
) -> Matched:
    """Mix the views [x, x', u, u'] and their targets over the whole batch, λ ~ Beta(α, α) and at least a half.

    Shapes: views of B labeled and U unlabeled rows, targets [B, K] and [U, K]. One training-mode forward.
    """
    views = torch.cat([*labeled, *unlabeled])
    targets = torch.cat([labeled_targets] * len(labeled) + [unlabeled_targets] * len(unlabeled))
    mix = draw_mix(step, len(views), alpha, mostly_first=True)
    return Matched(net(mix(views)), mix(targets), len(labeled) * len(labeled_targets))


def mean_softmax(*logits: Tensor) -> Tensor:
    """The mean prediction of several views or networks. Shapes: each [B, K] -> [B, K].

    >>> mean_softmax(torch.tensor([[0.0, 0.0]]), torch.tensor([[100.0, 0.0]]))
    tensor([[0.7500, 0.2500]])
    """
    return torch.stack([each.float().softmax(dim=1) for each in logits]).mean(dim=0)
