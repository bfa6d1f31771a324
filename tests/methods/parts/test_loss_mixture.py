"""Mixtures of losses against scikit-learn, a loop over rows, and known mixtures."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.mixture import GaussianMixture

from pars.methods.parts.loss_mixture import (
    N_BINS,
    LossMixture,
    fit_beta_mixture,
    fit_gaussian_mixture,
    make_non_decreasing,
    min_max_normalize,
    noisy_probability,
    to_unit_interval,
    trimmed_range,
)

Array = npt.NDArray[np.float64]


def two_groups(seed: int, *, n: int = 400, noisy: float = 0.4) -> Array:
    rng = np.random.default_rng(seed)
    few = int(noisy * n)
    return np.concatenate([rng.gamma(1, 0.1 * (seed + 1), n - few), rng.gamma(4, 0.5, few)])


def outlier() -> Array:
    return np.append(np.random.default_rng(0).normal(1, 0.01, 200), 5.0)


def best_cut(x: Array) -> npt.NDArray[np.bool_]:
    """The upper of two clusters: every cut of the sorted values is tried."""
    order = np.sort(x)
    cuts = [sum(part.var() * len(part) for part in np.split(order, [k])) for k in range(1, len(x))]
    upper: npt.NDArray[np.bool_] = x > order[int(np.argmin(cuts))]
    return upper


def sklearn_posterior(losses: Array) -> tuple[Array, Array]:
    """scikit-learn's EM from the clusters of the best cut: posterior of the low component, and the means."""
    x = (losses - losses.min()) / (losses.max() - losses.min())
    groups = [x[~best_cut(x)], x[best_cut(x)]]
    fit = GaussianMixture(
        2,
        max_iter=10,
        tol=1e-2,
        reg_covar=5e-4,
        weights_init=[len(g) / len(x) for g in groups],
        means_init=[[g.mean()] for g in groups],
        precisions_init=[[[1 / (g.var() + 5e-4)]] for g in groups],
    ).fit(x[:, None])
    low = int(fit.means_.argmin())
    return fit.predict_proba(x[:, None])[:, low], np.sort(fit.means_[:, 0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "losses",
    [*(two_groups(seed) for seed in range(5)), two_groups(1, noisy=0.05), outlier(), np.array([1.0, 3.0])],
    ids=[*map(str, range(5)), "few noisy", "outlier", "two points"],
)
def test_posterior_and_means_are_those_of_scikit_learn(losses: Array) -> None:
    mixture = fit_gaussian_mixture(torch.tensor(losses))
    posterior, means = sklearn_posterior(losses)
    assert_allclose(mixture.low, posterior, atol=1e-9)
    assert_allclose(mixture.means, means, atol=1e-9)
    assert not mixture.degenerate


def test_a_known_mixture_is_found_again() -> None:
    rng = np.random.default_rng(0)
    clean = rng.random(20_000) < 0.7
    losses = np.where(clean, rng.normal(0.5, 0.1, 20_000), rng.normal(2.0, 0.3, 20_000))
    mixture = fit_gaussian_mixture(torch.tensor(losses), iterations=50, tol=1e-6, floor=1e-9)
    low, high = losses.min(), losses.max()
    assert_allclose(np.array(mixture.means) * (high - low) + low, [0.5, 2.0], atol=0.01)
    assert_allclose(mixture.weights, [0.7, 0.3], atol=0.01)
    assert np.mean((mixture.low.numpy() > 0.5) == clean) > 0.998


@pytest.mark.parametrize("losses", [[0.7] * 20, [2.0], [0.0, 0.0]])
def test_losses_that_are_all_equal_are_not_two_components(losses: list[float]) -> None:
    mixture = fit_gaussian_mixture(torch.tensor(losses))
    assert mixture.degenerate
    assert mixture.low.isfinite().all()
    assert mixture.low.shape == (len(losses),)


def test_losses_that_are_not_finite_are_not_two_components() -> None:
    assert fit_gaussian_mixture(torch.tensor([1.0, math.nan, 2.0])).degenerate


def test_a_component_of_less_than_half_a_row_is_none() -> None:
    assert LossMixture(torch.ones(40), (0.1, 0.9), (0.99, 0.01)).degenerate
    assert not LossMixture(torch.ones(60), (0.1, 0.9), (0.99, 0.01)).degenerate


def test_the_mixture_does_not_depend_on_scale_or_order() -> None:
    losses = torch.tensor(two_groups(2))
    order = torch.randperm(len(losses), generator=torch.manual_seed(0))
    mixture = fit_gaussian_mixture(losses)
    assert_allclose(fit_gaussian_mixture(7 * losses[order] + 3).low, mixture.low[order], atol=1e-9)
    assert all(mixture.low[a] >= mixture.low[b] for a, b in combinations(losses[:10].argsort().tolist(), 2))


def test_a_mean_of_normalized_losses_is_fitted_as_it_is() -> None:
    """Its range is narrower than 0..1, so the variances' floor weighs more than on a normalized mean."""
    losses = torch.tensor(two_groups(3))
    mean = 0.2 + min_max_normalize(losses) / 4
    wide, narrow = fit_gaussian_mixture(losses), fit_gaussian_mixture(mean, normalize=False)
    same = fit_gaussian_mixture(losses, floor=16 * 5e-4)  # the floor is of a variance: 1/4 the range, 1/16 of it
    assert not torch.allclose(wide.low, narrow.low, atol=1e-3)
    assert_allclose(narrow.low, same.low, atol=1e-9)
    assert_allclose(narrow.means, 0.2 + np.array(same.means) / 4, atol=1e-9)


def test_normalized_losses_reach_from_0_to_1() -> None:
    assert_allclose(min_max_normalize(torch.tensor([3.0, 1.0, 2.0])), [1.0, 0.0, 0.5])
    assert_allclose(min_max_normalize(torch.tensor([3.0, 3.0])), [0.0, 0.0])


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
    grid = [[w * density((i + 0.5) / N_BINS, a, b) for w, a, b in parameters] for i in range(N_BINS)]
    return means, [w for w, _, _ in parameters], [high / (low + high) for low, high in grid]


@pytest.mark.parametrize("seed", range(3))
def test_the_fit_is_em_by_weighted_moments(seed: int) -> None:
    losses, _ = beta_mixture(seed, 300)
    mixture = fit_beta_mixture(torch.tensor(losses))
    means, weights, posterior = em_by_loop(losses.tolist())
    peak = int(np.argmax(posterior))
    held = posterior[:peak] + [posterior[peak]] * (N_BINS - peak)
    assert_allclose(mixture.means, means, rtol=1e-6)
    assert_allclose(mixture.weights, weights, rtol=1e-6)
    assert_allclose(mixture.table, held, rtol=1e-6)


def test_a_known_mixture_between_the_trimmed_ends_is_found_again() -> None:
    losses, low = beta_mixture(0, 18_000)
    ends = np.repeat([-3.0, 9.0], 999)  # one in twenty at either end
    mixture = fit_beta_mixture(torch.tensor(np.concatenate([losses, ends])), iterations=60)
    lower, upper = mixture.bounds.tolist()
    assert_allclose(np.array(mixture.means) * (upper - lower) + lower, [4 * 2 / 12, 4 * 10 / 13], atol=0.03)
    assert_allclose(mixture.weights, [0.6, 0.4], atol=0.01)
    grid = np.linspace(0.2, 3.8, 50)
    truth = [0.4 * density(x / 4, 10, 3) / (0.4 * density(x / 4, 10, 3) + 0.6 * density(x / 4, 2, 10)) for x in grid]
    assert_allclose(noisy_probability(torch.tensor(grid), mixture.bounds, mixture.table), truth, atol=0.06)
    assert np.mean((mixture.low[:18_000].numpy() > 0.5) == low) > 0.96


def test_new_losses_are_looked_up_by_their_bin() -> None:
    bounds, table = torch.tensor([1.0, 3.0]), torch.linspace(0, 1, N_BINS)
    losses = torch.tensor([-5.0, 1.0, 1.01, 1.5, 2.0, 2.99, 3.0, 99.0])
    bins = [0, 0, 0, 24, 49, 99, 99, 99]  # 1e-6 is added to the width, so that 1.5 and 2.0 are just below a bin's edge
    assert_allclose(noisy_probability(losses, bounds, table), table[bins])


def test_rows_of_the_fit_are_looked_up_as_new_ones_are() -> None:
    losses = torch.tensor(beta_mixture(1)[0])
    mixture = fit_beta_mixture(losses)
    assert torch.equal(mixture.low, 1 - noisy_probability(losses, mixture.bounds, mixture.table))


@settings(max_examples=30)
@given(
    losses=st.lists(st.floats(0, 20, width=32), min_size=1, max_size=60),
    copies=st.integers(1, 5),
)
def test_the_posterior_never_falls_as_the_loss_rises(losses: list[float], copies: int) -> None:
    mixture = fit_beta_mixture(torch.tensor(losses * copies))
    assert mixture.table.isfinite().all()
    assert (mixture.table.diff() >= 0).all()
    assert ((mixture.table >= 0) & (mixture.table <= 1)).all()


def test_a_posterior_that_turns_up_at_loss_0_does_not_make_every_row_noisy() -> None:
    """Losses that pile up at 0 with a wide tail of large ones: the fit's ratio is large at both ends."""
    turning = torch.tensor([0.95, 0.3, 0.1, 0.2, 0.6, 0.9, 0.8])
    assert_allclose(make_non_decreasing(turning, start=2), [0.1, 0.1, 0.1, 0.2, 0.6, 0.9, 0.9])
    assert_allclose(make_non_decreasing(turning.sort().values, start=3), turning.sort().values)


def test_losses_that_are_memorized_but_for_a_few_are_told_apart() -> None:
    losses = np.append(np.zeros(900), np.random.default_rng(0).normal(3, 0.1, 100))
    mixture = fit_beta_mixture(torch.tensor(losses))
    assert not mixture.degenerate
    assert (mixture.low[:900] > 0.99).all()
    assert (mixture.low[900:] < 0.01).all()


@pytest.mark.parametrize("losses", [[0.7] * 20, [2.0], [0.0] * 97 + [5.0] * 3, [math.nan] * 5])
def test_losses_that_are_equal_but_for_a_trimmed_few_are_not_two_components(losses: list[float]) -> None:
    assert fit_beta_mixture(torch.tensor(losses)).degenerate


def test_two_points_are_two_components() -> None:
    mixture = fit_beta_mixture(torch.tensor([1.0, 3.0]))
    assert not mixture.degenerate
    assert mixture.low[0] > 0.9 > 0.1 > mixture.low[1]


def test_the_trimmed_range_is_of_rows() -> None:
    losses = torch.tensor(np.random.default_rng(0).permutation(101).astype(np.float64))
    assert trimmed_range(losses).tolist() == [5.0, 95.0]
    assert trimmed_range(torch.tensor([4.0, 2.0])).tolist() == [2.0, 4.0]


def test_losses_on_the_unit_stay_off_its_ends() -> None:
    x = to_unit_interval(torch.tensor([0.0, 2.0, 3.0, 4.0, 9.0], dtype=torch.float64), torch.tensor([2.0, 4.0]))
    assert_allclose(x, [0.001, 0.001, 0.5, 0.999, 0.999], atol=1e-6)
