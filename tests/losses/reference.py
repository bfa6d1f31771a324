"""The losses once more: float64, numpy, straight from the formulas with plain probabilities."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from hypothesis import strategies as st
from torch import Tensor

Array = npt.NDArray[np.float64]


@st.composite
def batches(draw: st.DrawFn, size: float = 6.0) -> tuple[Tensor, Tensor]:
    """Logits [B, K] within ±size, and labels [B]."""
    rows, classes = draw(st.integers(1, 6)), draw(st.integers(2, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    logits = torch.tensor(rng.uniform(-size, size, (rows, classes)), dtype=torch.float32)
    return logits, torch.tensor(rng.integers(classes, size=rows))


def probabilities(logits: Tensor) -> Array:
    e: Array = np.exp(logits.detach().double().numpy())
    p: Array = e / e.sum(axis=1, keepdims=True)
    return p


def p_label(logits: Tensor, labels: Tensor) -> Array:
    p = probabilities(logits)
    return np.array([p[row, label] for row, label in enumerate(labels.tolist())])
