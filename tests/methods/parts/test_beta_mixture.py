"""Two Betas on losses, against a loop over rows and against known mixtures."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from pars.methods.parts.beta_mixture import (
    BINS,
    beta_split,
    never_falling,
    noisy_probability,
    on_unit,
    trimmed_range,
)

Array = npt.NDArray[np.float64]


def beta_mixture(seed: int, n: int = 500, *, clean: float = 0.6) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Losses on 0..4, and which of them are of the component of small ones."""
    rng = np.random.default_rng(seed)
    low = rng.random(n) < clean
    return 4 * np.where(low, rng.beta(2, 10, n), rng.beta(10, 3, n)), low


def density(x: float, alpha: float, beta: float) -> float:
    normalizer = math.gamma(alpha + beta) / math.gamma(alpha) / math.gamma(beta)
    return normalizer * math.pow(x, alpha - 1) * math.pow(1 - x, beta - 1)


def em_by_loop(losses: list[float]) -> tuple[list[float], list[float], list[float]]:
    """Means, weights and the noisy posterior in the middle of each bin: sums over rows, one by one."""
    ranked = sorted(losses)
    cut = int(0.05 * (len(ranked) - 1))
    lower, upper = ranked[cut], ranked[len(ranked) - 1 - cut]
    kept = [value for value in losses if lower <= value <= upper]
    x = [min(max((value - lower) / (upper - lower + 1e-6), 1e-3), 1 - 1e-3) for value in kept]
    parameters = [(0.5, 1.0, 2.0), (0.5, 2.0, 1.0)]  # weight, α, β
    means = [0.0, 0.0]
    for _ in range(10):
        joint = [[w * density(value, a, b) for w, a, b in parameters] for value in x]
        share = [[part / sum(parts) for part in parts] for parts in joint]
        parameters = []
        for c in (0, 1):
            count = sum(row[c] for row in share)
            m = sum(row[c] * value for row, value in zip(share, x, strict=True)) / count
            variance = sum(row[c] * (value - m) ** 2 for row, value in zip(share, x, strict=True)) / count
            a = m * (m * (1 - m) / variance - 1)
            parameters.append((count / len(x), a, a * (1 - m) / m))
            means[c] = m
    grid = [[w * density((i + 0.5) / BINS, a, b) for w, a, b in parameters] for i in range(BINS)]
    return means, [w for w, _, _ in parameters], [high / (low + high) for low, high in grid]


@pytest.mark.parametrize("seed", range(3))
def test_the_fit_is_em_by_weighted_moments(seed: int) -> None:
    losses, _ = beta_mixture(seed, 300)
    split = beta_split(torch.tensor(losses))
    means, weights, posterior = em_by_loop(losses.tolist())
    peak = int(np.argmax(posterior))
    held = posterior[:peak] + [posterior[peak]] * (BINS - peak)
    assert_allclose(split.means, means, rtol=1e-6)
    assert_allclose(split.weights, weights, rtol=1e-6)
    assert_allclose(split.table, held, rtol=1e-6)


def test_a_known_mixture_between_the_trimmed_ends_is_found_again() -> None:
    losses, low = beta_mixture(0, 18_000)
    ends = np.repeat([-3.0, 9.0], 999)  # one in twenty at either end
    split = beta_split(torch.tensor(np.concatenate([losses, ends])), iterations=60)
    lower, upper = split.bounds.tolist()
    assert_allclose(np.array(split.means) * (upper - lower) + lower, [4 * 2 / 12, 4 * 10 / 13], atol=0.03)
    assert_allclose(split.weights, [0.6, 0.4], atol=0.01)
    grid = np.linspace(0.2, 3.8, 50)
    truth = [0.4 * density(x / 4, 10, 3) / (0.4 * density(x / 4, 10, 3) + 0.6 * density(x / 4, 2, 10)) for x in grid]
    assert_allclose(noisy_probability(torch.tensor(grid), split.bounds, split.table), truth, atol=0.06)
    assert np.mean((split.low[:18_000].numpy() > 0.5) == low) > 0.96


def test_new_losses_are_looked_up_by_their_bin() -> None:
    bounds, table = torch.tensor([1.0, 3.0]), torch.linspace(0, 1, BINS)
    losses = torch.tensor([-5.0, 1.0, 1.01, 1.5, 2.0, 2.99, 3.0, 99.0])
    bins = [0, 0, 0, 24, 49, 99, 99, 99]  # 1e-6 is added to the width, so that 1.5 and 2.0 are just below a bin's edge
    assert_allclose(noisy_probability(losses, bounds, table), table[bins])


def test_rows_of_the_fit_are_looked_up_as_new_ones_are() -> None:
    losses = torch.tensor(beta_mixture(1)[0])
    split = beta_split(losses)
    assert torch.equal(split.low, 1 - noisy_probability(losses, split.bounds, split.table))


@settings(max_examples=30)
@given(
    losses=st.lists(st.floats(0, 20, width=32), min_size=1, max_size=60),
    copies=st.integers(1, 5),
)
def test_the_posterior_never_falls_as_the_loss_rises(losses: list[float], copies: int) -> None:
    split = beta_split(torch.tensor(losses * copies))
    assert split.table.isfinite().all()
    assert (split.table.diff() >= 0).all()
    assert ((split.table >= 0) & (split.table <= 1)).all()


def test_a_posterior_that_turns_up_at_loss_0_does_not_make_every_row_noisy() -> None:
    """Losses that pile up at 0 with a wide tail of large ones: the fit's ratio is large at both ends."""
    turning = torch.tensor([0.95, 0.3, 0.1, 0.2, 0.6, 0.9, 0.8])
    assert_allclose(never_falling(turning, start=2), [0.1, 0.1, 0.1, 0.2, 0.6, 0.9, 0.9])
    assert_allclose(never_falling(turning.sort().values, start=3), turning.sort().values)


def test_losses_that_are_memorized_but_for_a_few_are_told_apart() -> None:
    losses = np.append(np.zeros(900), np.random.default_rng(0).normal(3, 0.1, 100))
    split = beta_split(torch.tensor(losses))
    assert not split.degenerate
    assert (split.low[:900] > 0.99).all()
    assert (split.low[900:] < 0.01).all()


@pytest.mark.parametrize("losses", [[0.7] * 20, [2.0], [0.0] * 97 + [5.0] * 3, [math.nan] * 5])
def test_losses_that_are_equal_but_for_a_trimmed_few_are_not_two_components(losses: list[float]) -> None:
    assert beta_split(torch.tensor(losses)).degenerate


def test_two_points_are_two_components() -> None:
    split = beta_split(torch.tensor([1.0, 3.0]))
    assert not split.degenerate
    assert split.low[0] > 0.9 > 0.1 > split.low[1]


def test_the_trimmed_range_is_of_rows() -> None:
    losses = torch.tensor(np.random.default_rng(0).permutation(101).astype(np.float64))
    assert trimmed_range(losses).tolist() == [5.0, 95.0]
    assert trimmed_range(torch.tensor([4.0, 2.0])).tolist() == [2.0, 4.0]


def test_losses_on_the_unit_stay_off_its_ends() -> None:
    x = on_unit(torch.tensor([0.0, 2.0, 3.0, 4.0, 9.0], dtype=torch.float64), torch.tensor([2.0, 4.0]))
    assert_allclose(x, [0.001, 0.001, 0.5, 0.999, 0.999], atol=1e-6)
