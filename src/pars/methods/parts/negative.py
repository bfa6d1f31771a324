"""Negative learning: classes that a row is told not to be."""

from __future__ import annotations

import torch
from torch import Tensor

from pars.losses import negative_learning
from pars.methods.step import Step


def complements(at: Step, labels: Tensor, n_classes: int, draws: int) -> Tensor:
    """Random classes, each uniform over those other than the label. Shapes: [B] -> [B, draws]."""
    shift = 1 + at.uniform_integers(n_classes - 1, (len(labels), draws))
    return (labels[:, None] + shift) % n_classes


def mean_negative(at: Step, logits: Tensor, labels: Tensor, draws: int) -> Tensor:
    """Negative learning of random classes other than the label, averaged over draws. Shapes: [B, K], [B] -> [B]."""
    drawn = complements(at, labels, logits.shape[1], draws)
    return torch.stack([negative_learning(logits, column) for column in drawn.unbind(dim=1)]).mean(dim=0)
