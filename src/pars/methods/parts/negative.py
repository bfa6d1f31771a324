"""Complementary labels: classes that a row is trained not to be (Kim et al. 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.method_api import Step

if TYPE_CHECKING:
    from torch import Tensor


def complements(step: Step, labels: Tensor, n_classes: int, draws: int) -> Tensor:
    """Random classes, each uniform over those other than the label. Shapes: [B] -> [B, draws]."""
    shift = 1 + step.uniform_integers(n_classes - 1, (len(labels), draws))
    return (labels[:, None] + shift) % n_classes


def draw_complement(step: Step, labels: Tensor, n_classes: int) -> Tensor:
    """One random class per row, uniform over those other than the label. Shapes: [B] -> [B]."""
    return complements(step, labels, n_classes, 1)[:, 0]
