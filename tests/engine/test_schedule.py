"""Learning rate, averaged weights and the settings of training, against their definitions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from pars.engine import TrainConfig
from pars.engine.ema import calibrate, decay_at, make_average, update_average
from pars.engine.schedule import learning_rate
from pars.errors import UserError


def test_the_papers_schedule_falls_from_03_to_00585() -> None:
    rates = [learning_rate(TrainConfig(lr=0.03), step=step, total=100) for step in range(101)]
    assert rates[0] == 0.03
    assert_allclose(rates[-1], 0.00585, atol=5e-6)
    assert_allclose(rates, 0.03 * np.cos(7 * np.pi * np.arange(101) / 1600), rtol=1e-12)
    assert all(a > b for a, b in itertools.pairwise(rates))


def test_the_other_schedules() -> None:
    cosine = [learning_rate(TrainConfig(schedule="cosine", lr=2.0), step=step, total=4) for step in range(5)]
    assert_allclose(cosine, [2, 1 + math.sqrt(0.5), 1, 1 - math.sqrt(0.5), 0], atol=1e-12)
    assert {learning_rate(TrainConfig(schedule="constant", lr=0.1), step=step, total=9) for step in range(10)} == {0.1}


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
        update_average(averaged, weights, decay_at(t, decay=decay, ramp=ramp))
        m = min(decay, (1 + t) / (10 + t)) if ramp else decay
        for name, p in module.named_parameters():
            expected[name] = m * expected[name] + (1 - m) * p.detach().double().numpy()
    for name, p in average.named_parameters():
        assert_allclose(p, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert dict(average.named_buffers())["1.num_batches_tracked"] == 0  # they are calibrated, not averaged


def test_calibration_measures_the_statistics_of_the_averaged_weights() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    average = make_average(module)
    batches = [torch.randn(10, 3) + i for i in range(3)]
    calibrate(average, iter(batches))
    hidden = [average[0](batch).detach().double().numpy() for batch in batches]  # type: ignore[index]
    norm = average[1]  # type: ignore[index]
    np.testing.assert_allclose(norm.running_mean.numpy(), np.mean([h.mean(0) for h in hidden], axis=0), rtol=1e-5)
    np.testing.assert_allclose(norm.running_var.numpy(), np.mean([h.var(0, ddof=1) for h in hidden], axis=0), rtol=1e-5)
    assert norm.momentum == 0.1
    assert not any(m.training for m in average.modules())
    calibrate(nn.Linear(3, 2), iter([]))  # nothing to measure


def test_the_ramp_starts_low_and_never_passes_the_decay() -> None:
    decays = [decay_at(step, decay=0.99, ramp=True) for step in range(2000)]
    assert decays[0] == 0.1
    assert decays[90] == 0.91
    assert max(decays) == decays[-1] == 0.99
    assert decays == sorted(decays)
    assert decay_at(0, decay=0.99, ramp=False) == 0.99


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epochs": 0}, r"train\.epochs is 0"),
        ({"batch_size": 0}, r"train\.batch_size is 0"),
        ({"evaluate_every": 0}, r"train\.evaluate_every is 0"),
        ({"checkpoint_every": -1}, r"train\.checkpoint_every is -1"),
        ({"steps_per_epoch": 0}, r"train\.steps_per_epoch is 0"),
        ({"lr": -0.1}, r"train\.lr is -0\.1"),
        ({"lr": float("nan")}, r"train\.lr is nan"),
        ({"weight_decay": -1}, r"train\.weight_decay is -1"),
        ({"epochs": 10**400}, r"train\.epochs is 1000"),
        ({"steps_per_epoch": 10**14}, r"train\.steps_per_epoch is 10+, expected at most 1000000000"),
        ({"batch_size": 10**14}, r"train\.batch_size is 10+, expected at most"),
        ({"lr": 1e300}, r"train\.lr is 1e\+300, expected a number of at least 0 and at most 1e\+30"),
        ({"weight_decay": float("inf")}, r"train\.weight_decay is inf"),
        ({"ema": 1.0}, r"train\.ema is 1\.0"),
        ({"nesterov": True, "momentum": 0}, r"train\.nesterov needs train\.momentum"),
    ],
)
def test_a_wrong_setting_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        TrainConfig(**changes)
