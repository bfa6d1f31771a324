"""Mixup (Zhang et al. 2018) and MixMatch (Berthelot et al. 2019): rows and their targets, combined in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pars.lazy import torch
from pars.losses import class_balance, cross_entropy, reduce
from pars.method_api import Network, Step
from pars.methods.parts.targets import one_hot

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Mix:
    """One mixing weight λ for a batch, and the partner of each row."""

    weight: float
    partner: Tensor  # [B] position in the batch

    def __call__(self, values: Tensor) -> Tensor:
        """Return λ·v + (1-λ)·v_partner, for views or targets [B, ...]."""
        return self.weight * values + (1 - self.weight) * values[self.partner]


def draw_mix(step: Step, n: int, alpha: float, *, mostly_first: bool = False) -> Mix:
    """Draw λ ~ Beta(α, α) and a permutation of n rows. `mostly_first`: max(λ, 1-λ), as in MixMatch."""
    weight = float(step.rng.beta(alpha, alpha))
    return Mix(max(weight, 1 - weight) if mostly_first else weight, step.permutation(n))


def mixup_loss(step: Step, alpha: float) -> Tensor:
    """Return λ·CE(x̃, y) + (1-λ)·CE(x̃, y_π) over the labeled batch: a scalar.

    Cross-entropy is linear in its target, so this is one cross-entropy with the mixed target.
    """
    mix = draw_mix(step, len(step.batch), alpha)
    logits = step.net(mix(step.batch.weak))
    return reduce.mean(cross_entropy(logits, mix(one_hot(step.batch.labels, logits.shape[1]))))


@dataclass(frozen=True)
class MixMatchBatch:
    """Logits of mixed rows and their mixed targets; the first `n_labeled` are mostly a labeled row."""

    logits: Tensor  # [m, K]
    targets: Tensor  # [m, K]
    n_labeled: int

    def cross_entropy(self, class_weights: Tensor | None = None) -> Tensor:
        """Return Σ_k c_k · mean(-t_k log p_k) over the labeled part; c = 1 without class weights [K]."""
        logits, targets = self.logits[: self.n_labeled], self.targets[: self.n_labeled]
        # A weighted target is not a distribution; -Σ_k c_k t_k log p_k is the intended loss all the same.
        return reduce.mean(cross_entropy(logits, targets if class_weights is None else class_weights * targets))

    def squared_error(self) -> Tensor:
        """Return the mean of (p_k - t_k)² over rows and classes of the unlabeled part; bounded for wrong targets."""
        p = self.logits[self.n_labeled :].float().softmax(dim=1)
        return reduce.mean(((p - self.targets[self.n_labeled :]) ** 2).mean(dim=1))

    def class_balance(self) -> Tensor:
        """Return Σ_k π_k log(π_k / h_k), π uniform and h the mean prediction over all rows."""
        return class_balance(reduce.mean_probabilities(self.logits.float().softmax(dim=1)))


def mixmatch(
    step: Step,
    net: Network,
    labeled: Sequence[Tensor],
    labeled_targets: Tensor,
    unlabeled: Sequence[Tensor],
    unlabeled_targets: Tensor,
    *,
    alpha: float,
    labeled_only: bool = False,
) -> MixMatchBatch:
    """Mix the views [x, x', u, u'] and their targets over the whole batch, λ ~ Beta(α, α) and at least 1/2.

    Shapes: views of B labeled and U unlabeled rows, targets [B, K] and [U, K]; U may be 0. One forward in training
    mode. `labeled_only`: unlabeled rows are partners, but are not passed themselves.
    """
    views = torch.cat([*labeled, *unlabeled])
    targets = torch.cat([labeled_targets] * len(labeled) + [unlabeled_targets] * len(unlabeled))
    mix = draw_mix(step, len(views), alpha, mostly_first=True)
    n_labeled = len(labeled) * len(labeled_targets)
    end = n_labeled if labeled_only else len(views)
    return MixMatchBatch(net(mix(views)[:end]), mix(targets)[:end], n_labeled)
