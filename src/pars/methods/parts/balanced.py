"""Class-balanced rows: every class as often as the largest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


def class_balanced(rows: Tensor, labels: Tensor) -> Tensor:
    """Row numbers in which each class that has rows has as many as the largest: its own, over and over.

    Shapes: rows [m], labels [m] (0 … K-1) -> [classes · largest], by class; nothing is drawn.

    >>> class_balanced(torch.tensor([10, 11, 12, 13, 14]), torch.tensor([2, 0, 2, 2, 0]))
    tensor([11, 14, 11, 10, 12, 13])
    """
    counts = labels.bincount()
    first = counts.cumsum(0) - counts
    first, counts = first[counts > 0], counts[counts > 0]
    if not len(counts):
        return rows
    turns = torch.arange(int(counts.max()), device=rows.device) % counts[:, None]  # [classes, largest]
    by_class = rows[labels.argsort(stable=True)]
    return by_class[(first[:, None] + turns).flatten()]


def several_classes(labels: Tensor) -> bool:
    """Whether there are rows of two classes: of fewer, nothing can be learned. Labels must be 0 … K-1."""
    return int(labels.bincount().count_nonzero()) > 1
