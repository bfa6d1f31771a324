"""Two Gaussians on losses, against scikit-learn's and against known mixtures."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.mixture import GaussianMixture

from pars.methods.parts.mixture import Split, gaussian_split, normalized

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
    split = gaussian_split(torch.tensor(losses))
    posterior, means = sklearn_posterior(losses)
    assert_allclose(split.low, posterior, atol=1e-9)
    assert_allclose(split.means, means, atol=1e-9)
    assert not split.degenerate


def test_a_known_mixture_is_found_again() -> None:
    rng = np.random.default_rng(0)
    clean = rng.random(20_000) < 0.7
    losses = np.where(clean, rng.normal(0.5, 0.1, 20_000), rng.normal(2.0, 0.3, 20_000))
    split = gaussian_split(torch.tensor(losses), iterations=50, tol=1e-6, floor=1e-9)
    low, high = losses.min(), losses.max()
    assert_allclose(np.array(split.means) * (high - low) + low, [0.5, 2.0], atol=0.01)
    assert_allclose(split.weights, [0.7, 0.3], atol=0.01)
    assert np.mean((split.low.numpy() > 0.5) == clean) > 0.998


@pytest.mark.parametrize("losses", [[0.7] * 20, [2.0], [0.0, 0.0]])
def test_losses_that_are_all_equal_are_not_two_components(losses: list[float]) -> None:
    split = gaussian_split(torch.tensor(losses))
    assert split.degenerate
    assert split.low.isfinite().all()
    assert split.low.shape == (len(losses),)


def test_losses_that_are_not_finite_are_not_two_components() -> None:
    assert gaussian_split(torch.tensor([1.0, math.nan, 2.0])).degenerate


def test_a_component_of_less_than_half_a_row_is_none() -> None:
    assert Split(torch.ones(40), (0.1, 0.9), (0.99, 0.01)).degenerate
    assert not Split(torch.ones(60), (0.1, 0.9), (0.99, 0.01)).degenerate


def test_the_split_does_not_depend_on_scale_or_order() -> None:
    losses = torch.tensor(two_groups(2))
    order = torch.randperm(len(losses), generator=torch.manual_seed(0))
    split = gaussian_split(losses)
    assert_allclose(gaussian_split(7 * losses[order] + 3).low, split.low[order], atol=1e-9)
    assert all(split.low[a] >= split.low[b] for a, b in combinations(losses[:10].argsort().tolist(), 2))


def test_normalized_losses_reach_from_0_to_1() -> None:
    assert_allclose(normalized(torch.tensor([3.0, 1.0, 2.0])), [1.0, 0.0, 0.5])
    assert_allclose(normalized(torch.tensor([3.0, 3.0])), [0.0, 0.0])
