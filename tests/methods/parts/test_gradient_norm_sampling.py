"""Drawing rows by how much their labels can teach: against closed forms, counts, and a world with a known answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from methods.by_hand import epoch_of
from pars.losses import parse
from pars.method_api import Task
from pars.methods import PARSFast
from pars.methods.parts import prediction_history
from pars.methods.parts.gradient_norm_sampling import drawn_rows, gradient_norms, systematic_resample


@pytest.mark.parametrize("q", [0.3, 0.7, 1.0])
def test_the_gradient_of_gce_is_that_of_its_formula(q: float) -> None:
    """Of (1 - p_y^q)/q it is -p_y^q·(e_y - p)."""
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(scale=3, size=(50, 4)), rng.integers(4, size=50)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    p_y = p[np.arange(50), labels]
    expected = p_y**q * np.linalg.norm(np.eye(4)[labels] - p, axis=1)
    found = gradient_norms(parse(f"gce(q={q})"), torch.from_numpy(logits), torch.from_numpy(labels))
    assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_no_gradient_is_left_behind_where_none_is_computed() -> None:
    logits = torch.zeros(2, 3, requires_grad=True)
    with torch.no_grad():
        norms = gradient_norms(parse("ce"), logits, torch.tensor([0, 1]))
    assert not norms.requires_grad
    assert logits.grad is None


@given(
    weights=st.lists(st.floats(0, 1e3), min_size=1, max_size=60),
    seed=st.integers(0, 1000),
    floor=st.floats(0.01, 1),
)
@settings(derandomize=True, deadline=None)
def test_a_row_comes_as_often_as_expected_up_to_one(weights: list[float], seed: int, floor: float) -> None:
    n, rows = len(weights), torch.arange(len(weights)) + 100
    found = systematic_resample(rows, torch.tensor(weights), np.random.default_rng(seed), floor=floor)
    assert len(found) == n
    counts = (found - 100).bincount(minlength=n).numpy()
    given_weights = np.asarray(weights, dtype=np.float32).astype(np.float64)
    share = given_weights / given_weights.mean() if given_weights.any() else np.zeros(n)
    expected = floor + (1 - floor) * share
    expected *= n / expected.sum()
    assert (np.abs(counts - expected) < 1 + 1e-6).all()


def test_over_many_epochs_the_counts_are_the_weights() -> None:
    weights, rng = torch.tensor([0.0, 1.0, 2.0, 5.0]), np.random.default_rng(0)
    counts = torch.stack(
        [systematic_resample(torch.arange(4), weights, rng, floor=0.2).bincount(minlength=4) for _ in range(4000)]
    )
    expected = 0.2 + 0.8 * weights / 2
    assert_allclose(counts.double().mean(dim=0), expected, atol=0.03)


def test_contradicted_and_learned_labels_are_drawn_seldom_and_rows_without_one_never() -> None:
    n, k = 400, 4
    given_labels = torch.zeros(n, dtype=torch.int64)
    given_labels[300:] = -1
    method = PARSFast(robust="gce(q=0.7)")
    state = method.initial_state(Task(n, k, given_labels, 10))
    assert torch.equal(drawn_rows(state), torch.arange(300))
    logits = torch.zeros(n, k)
    logits[:100, 0] = 9.0  # learned
    logits[100:200, 1] = 9.0  # contradicted
    prediction_history.update_ensemble(
        state, torch.arange(200), logits[:200], momentum=0.0
    )  # of 200 … 299 nothing is known yet
    method.before_epoch(epoch_of(given_labels, state, k))
    drawn = drawn_rows(state)
    assert len(drawn) == 300
    counts = drawn.bincount(minlength=n)
    assert counts[300:].sum() == 0
    assert counts[200:300].sum() > 220
    assert 10 < counts[:100].sum() < 30
    assert 10 < counts[100:200].sum() < 30
