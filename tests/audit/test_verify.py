"""Labels checked by people: the interval holds the truth as often as it says, and probabilities become calibrated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from audit.worlds import calibration_error
from pars.audit import score
from pars.audit.verify import draw_sample, log_odds, platt
from pars.errors import UserError


def rows(n: int = 3000, seed: int = 0) -> tuple[np.typing.NDArray[np.float64], np.typing.NDArray[np.bool_]]:
    """Probabilities that are too sure of themselves, and whether the labels are right."""
    rng = np.random.default_rng(seed)
    calibrated = rng.beta(1.5, 0.4, n)
    right = rng.random(n) < calibrated
    odds = 2 * (np.log(calibrated) - np.log1p(-calibrated)) + 0.7
    return 1 / (1 + np.exp(-odds)), right


def test_the_interval_holds_the_truth_in_nineteen_of_twenty_samples() -> None:
    probability, right = rows()
    held, widths = [], []
    for seed in range(200):
        sample = draw_sample(probability, 200, seed)
        checked = sample.result(right[sample.rows])
        held.append(checked.noise_rate_low <= (~right).mean() <= checked.noise_rate_high)
        widths.append(checked.noise_rate_high - checked.noise_rate_low)
    assert 0.9 <= np.mean(held) <= 1.0
    rate = (~right).mean()
    assert np.mean(widths) < 2 * 1.96 * np.sqrt(rate * (1 - rate) / 200)  # narrower than without strata


def test_a_sample_has_the_size_asked_for_and_no_row_twice() -> None:
    probability, _ = rows(500)
    probability[::3] = np.nan
    for n in (2, 7, 50, 200):
        sample = draw_sample(probability, n, 0)
        assert len(sample) == n == len(set(sample.rows.tolist()))
        assert not np.isnan(probability[sample.rows]).any()
    assert len(draw_sample(probability, 10_000, 0)) == 333


def test_checking_every_row_leaves_no_uncertainty() -> None:
    probability, right = rows(60)
    sample = draw_sample(probability, 60, 0)
    checked = sample.result(right[sample.rows])
    assert checked.noise_rate == pytest.approx((~right).mean())
    assert checked.noise_rate_high - checked.noise_rate_low < 1e-9


def test_answers_calibrate() -> None:
    probability, right = rows()
    sample = draw_sample(probability, 400, 1)
    calibrated = sample.result(right[sample.rows]).label_right_prob
    before, after = (calibration_error(p, right) for p in (probability, calibrated))
    assert after < 0.5 * before
    order = np.argsort(probability)
    assert (np.diff(calibrated[order]) >= 0).all()


def test_the_calibration_is_that_of_a_general_optimizer() -> None:
    rng = np.random.default_rng(2)
    x, weights = rng.standard_normal(80), rng.random(80) + 0.5
    right = (rng.random(80) < 1 / (1 + np.exp(-(0.5 * x + 1)))).astype(float)
    scaled = weights * 80 / weights.sum()

    def loss(theta: np.typing.NDArray[np.float64]) -> float:
        z = theta[0] * x + theta[1]
        return float(-(scaled * (right * z - np.logaddexp(0, z))).sum() + ((theta - [1, 0]) ** 2).sum() / 8)

    assert platt(x, right, weights) == pytest.approx(minimize(loss, [1.0, 0.0], tol=1e-12).x, abs=1e-4)
    assert log_odds(np.array([0.5, 0.9])) == pytest.approx([0.0, np.log(9)])


def test_a_report_draws_the_same_sample_again() -> None:
    p = np.random.default_rng(3).dirichlet([1, 1, 1], 100)
    report = score(p, p.argmax(axis=1))
    assert report.verify(20, seed=5).rows.tolist() == report.verify(20, seed=5).rows.tolist()
    assert report.verify(20, seed=5).rows.tolist() != report.verify(20, seed=6).rows.tolist()


def test_answers_of_another_number_are_refused() -> None:
    probability, right = rows(50)
    sample = draw_sample(probability, 10, 0)
    with pytest.raises(UserError, match=r"answers have shape \[9\], expected \[10\]"):
        sample.result(right[sample.rows][:9])
    with pytest.raises(UserError, match=r"answer 2 is 2, expected true .* or false"):
        sample.result(np.arange(10))
    with pytest.raises(UserError, match="a sample of 1 rows"):
        draw_sample(probability, 1, 0)
