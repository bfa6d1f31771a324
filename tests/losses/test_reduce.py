"""Reductions over a batch."""

from __future__ import annotations

import pytest
import torch
from numpy.testing import assert_allclose

from pars.losses import mean, mean_probabilities


def test_the_mean_is_over_the_kept_rows() -> None:
    values = torch.tensor([1.0, 5.0, 9.0], requires_grad=True)
    result = mean(values, torch.tensor([True, False, True]))
    (gradient,) = torch.autograd.grad(result, values)
    assert result.item() == 5
    assert gradient.tolist() == [0.5, 0, 0.5]


@pytest.mark.parametrize("rows", [0, 3])
def test_an_empty_set_contributes_nothing(rows: int) -> None:
    values = torch.full((rows,), 7.0, requires_grad=True)
    result = mean(values, torch.zeros(rows, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(result, values)
    assert result.item() == 0
    assert (gradient == 0).all()
    assert mean(torch.zeros(0)).item() == 0


def test_a_dropped_row_cannot_spoil_the_mean() -> None:
    values = torch.tensor([1.0, float("nan"), float("inf")], requires_grad=True)
    result = mean(values, torch.tensor([True, False, False]))
    (gradient,) = torch.autograd.grad(result, values)
    assert result.item() == 1
    assert gradient.tolist() == [1, 0, 0]


@pytest.mark.parametrize(("min_share", "divisor"), [(0.0, 2), (0.25, 2), (0.5, 4), (1.0, 8)])
def test_the_divisor_has_a_floor_in_shares_of_the_batch(min_share: float, divisor: int) -> None:
    values, mask = torch.arange(8.0), torch.arange(8) >= 6  # two of eight rows are kept
    assert mean(values, mask, min_share=min_share).item() == (6 + 7) / divisor


def test_an_empty_set_contributes_nothing_whatever_its_floor() -> None:
    assert mean(torch.ones(4), torch.zeros(4, dtype=torch.bool), min_share=0.5).item() == 0


def test_half_precision_is_summed_in_float32() -> None:
    values = torch.full((70000,), 1.0, dtype=torch.float16)  # the sum overflows float16
    assert mean(values).dtype == torch.float32
    assert mean(values).item() == 1
    assert_allclose(mean_probabilities(torch.full((70000, 2), 0.5, dtype=torch.float16)), [0.5, 0.5])
