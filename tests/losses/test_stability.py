"""Logits of ±10 000 and half precision: finite values, finite gradients, float32 results."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

from pars.losses import (
    class_balance,
    cross_entropy,
    focal,
    gce,
    imae,
    mae,
    mean_probabilities,
    nce,
    negative_learning,
    nfl,
    positive_learning,
    rce,
    sce,
)

LossFunction = Callable[[Tensor, Tensor], Tensor]

LOSSES: dict[str, LossFunction] = {
    "ce": cross_entropy,
    "focal": focal,
    "focal 2": lambda x, y: focal(x, y, gamma=2),
    "mae": mae,
    "rce": rce,
    "sce": sce,
    "gce": gce,
    "gce .01": lambda x, y: gce(x, y, q=0.01),
    "imae": imae,
    "imae 40": lambda x, y: imae(x, y, T=40),
    "nce": nce,
    "nfl": nfl,
    "nfl 5": lambda x, y: nfl(x, y, gamma=5),
    "nfl 500": lambda x, y: nfl(x, y, gamma=500),
    "positive": positive_learning,
    "negative": negative_learning,
    "soft ce": lambda x, y: cross_entropy(x, torch.nn.functional.one_hot(y, x.shape[1])),
    "soft negative": lambda x, y: negative_learning(x, torch.nn.functional.one_hot(y, x.shape[1])),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())


def extreme() -> tuple[Tensor, Tensor]:
    """All rows of three logits from {-1e4, 0, 1, 1e4}, each with each label."""
    rows = [list(row) for row in itertools.product([-1e4, 0.0, 1.0, 1e4], repeat=3)]
    logits = torch.tensor(rows).repeat_interleave(3, dim=0)
    return logits, torch.arange(3).repeat(len(rows))


@every_loss
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_extreme_logits_give_finite_losses_and_gradients(loss: LossFunction, dtype: torch.dtype) -> None:
    logits, labels = extreme()
    logits = logits.to(dtype).requires_grad_()
    values = loss(logits, labels)
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    assert values.dtype == torch.float32
    assert values.isfinite().all()
    assert (values >= 0).all()
    assert gradient.isfinite().all()
    assert gradient.dtype == dtype


@every_loss
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions_are_computed_in_float32(loss: LossFunction, dtype: torch.dtype) -> None:
    logits = torch.randn(16, 5, generator=torch.Generator().manual_seed(0)).to(dtype) * 3
    labels = torch.arange(16) % 5
    assert_allclose(loss(logits, labels), loss(logits.float(), labels), rtol=1e-6)


def test_a_hopelessly_wrong_row_still_has_its_textbook_gradient_under_cross_entropy() -> None:
    logits = torch.tensor([[1e4, -1e4]], requires_grad=True)
    (gradient,) = torch.autograd.grad(cross_entropy(logits, torch.tensor([1])).sum(), logits)
    assert gradient.tolist() == [[1.0, -1.0]]


@pytest.mark.parametrize("loss", [mae, gce, rce])
def test_a_hopelessly_wrong_row_is_given_up_by_bounded_losses(loss: LossFunction) -> None:
    logits = torch.tensor([[1e4, -1e4]], requires_grad=True)
    (gradient,) = torch.autograd.grad(loss(logits, torch.tensor([1])).sum(), logits)
    assert (gradient == 0).all()


def test_mae_keeps_its_digits_near_certainty() -> None:
    logits = torch.tensor([[12.0, 0.0]])  # 1 - p_y = 6.1e-6
    expected = torch.sigmoid(torch.tensor([-12.0], dtype=torch.float64))
    assert_allclose(mae(logits, torch.tensor([0])), expected, rtol=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_class_balance_survives_a_collapsed_batch(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]] * 4, dtype=dtype).requires_grad_()
    value = class_balance(mean_probabilities(logits.float().softmax(1)))
    (gradient,) = torch.autograd.grad(value, logits)
    assert value.dtype == torch.float32
    assert value.isfinite()
    assert gradient.isfinite().all()
