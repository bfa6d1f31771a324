"""Averaged weights against a loop in float64."""

from __future__ import annotations

import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from pars.engine.learner import ema_decay, make_average, update_average


@pytest.mark.parametrize(("decay", "ramp"), [(0.999, False), (0.9, False), (0.0, False), (0.95, True)])
def test_averages_match_a_naive_loop_in_float64(decay: float, ramp: bool) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    average = make_average(module)
    averaged, weights = tuple(average.parameters()), tuple(module.parameters())
    expected = {name: p.detach().double().numpy().copy() for name, p in module.named_parameters()}
    for t in range(60):
        with torch.no_grad():
            for p in module.parameters():
                p.add_(0.1 * torch.randn_like(p))
        module(torch.randn(8, 3))  # moves BatchNorm's buffers
        update_average(averaged, weights, ema_decay(t, decay=decay, ramp=ramp))
        m = min(decay, (1 + t) / (10 + t)) if ramp else decay
        for name, p in module.named_parameters():
            expected[name] = m * expected[name] + (1 - m) * p.detach().double().numpy()
    for name, p in average.named_parameters():
        assert_allclose(p, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert dict(average.named_buffers())["1.num_batches_tracked"] == 0  # they are calibrated, not averaged


def test_the_ramp_starts_low_and_never_passes_the_decay() -> None:
    decays = [ema_decay(step, decay=0.99, ramp=True) for step in range(2000)]
    assert decays[0] == 0.1
    assert decays[90] == 0.91
    assert max(decays) == decays[-1] == 0.99
    assert decays == sorted(decays)
    assert ema_decay(0, decay=0.99, ramp=False) == 0.99


def test_a_growing_decay_is_at_its_value_when_its_steps_are_over() -> None:
    """As in ELR+: 0.997·exp(-5(1-t/40000)²), from 0.0067 on."""
    decays = [ema_decay(step, decay=0.997, ramp=False, growth=40_000) for step in range(0, 60_000, 10_000)]
    expected = [0.997 * 2.718281828**exponent for exponent in (-5, -45 / 16, -5 / 4, -5 / 16, 0, 0)]
    assert_allclose(decays, expected, rtol=1e-6)
