"""Negative learning of several classes at once."""

from __future__ import annotations

import torch
from torch import Tensor

from pars.losses import negative_learning


def mean_negative(logits: Tensor, classes: Tensor) -> Tensor:
    """Negative learning averaged over the columns of `classes` [B, m]. Shapes: [B, K], [B, m] -> [B]."""
    losses = [negative_learning(logits, column) for column in classes.unbind(dim=1)]
    return torch.stack(losses).mean(dim=0)
