"""Every loss against its definition, and the identities that tie them together."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor

from losses.reference import batches, p_label, probabilities
from pars.losses import (
    class_balance,
    cross_entropy,
    focal,
    gce,
    imae,
    mae,
    nce,
    negative_learning,
    nfl,
    parse,
    positive_learning,
    rce,
    sce,
)

deterministic = settings(derandomize=True, deadline=None, max_examples=40)


def every_label(logits: Tensor) -> list[Tensor]:
    return [torch.full((len(logits),), k) for k in range(logits.shape[1])]


@given(batch=batches())
@deterministic
def test_cross_entropy_and_positive_learning_match_their_definition(batch: tuple[Tensor, Tensor]) -> None:
    expected = -np.log(p_label(*batch))
    assert_allclose(cross_entropy(*batch), expected, rtol=1e-5, atol=1e-6)
    assert_allclose(positive_learning(*batch), expected, rtol=1e-5, atol=1e-6)


@given(batch=batches())
@deterministic
def test_soft_cross_entropy_is_the_mixture_of_hard_ones(batch: tuple[Tensor, Tensor]) -> None:
    logits, _ = batch
    targets = torch.tensor(np.random.default_rng(0).dirichlet(np.ones(logits.shape[1]), len(logits)))
    expected = -(targets.numpy() * np.log(probabilities(logits))).sum(1)
    assert_allclose(cross_entropy(logits, targets), expected, rtol=1e-5, atol=1e-6)
    assert_allclose(positive_learning(logits, targets), expected, rtol=1e-5, atol=1e-6)


@given(batch=batches(), gamma=st.floats(0, 5))
@deterministic
def test_focal_matches_its_definition(batch: tuple[Tensor, Tensor], gamma: float) -> None:
    p = p_label(*batch)
    assert_allclose(focal(*batch, gamma=gamma), -((1 - p) ** gamma) * np.log(p), rtol=1e-4, atol=1e-6)


@given(batch=batches())
@deterministic
def test_the_focal_factor_is_a_weight_without_gradient(batch: tuple[Tensor, Tensor]) -> None:
    logits, labels = batch
    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(focal(logits, labels, gamma=2).sum(), logits)
    p = probabilities(logits)
    one_hot = np.eye(p.shape[1])[labels.numpy()]
    expected = (1 - p_label(logits, labels))[:, None] ** 2 * (p - one_hot)
    assert_allclose(gradient, expected, rtol=1e-3, atol=1e-6)


@given(batch=batches())
@deterministic
def test_mae_is_half_the_l1_distance_to_the_one_hot_label(batch: tuple[Tensor, Tensor]) -> None:
    logits, labels = batch
    one_hot = np.eye(logits.shape[1])[labels.numpy()]
    assert_allclose(mae(logits, labels), np.abs(probabilities(logits) - one_hot).sum(1) / 2, rtol=1e-4, atol=1e-6)


@given(batch=batches(), a=st.floats(-10, -0.1))
@deterministic
def test_rce_is_cross_entropy_with_the_roles_swapped(batch: tuple[Tensor, Tensor], a: float) -> None:
    logits, labels = batch
    log_one_hot = np.where(np.eye(logits.shape[1])[labels.numpy()] == 1, 0.0, a)
    expected = -(probabilities(logits) * log_one_hot).sum(1)
    assert_allclose(rce(logits, labels, A=a), expected, rtol=1e-4, atol=1e-5)
    assert_allclose(rce(logits, labels, A=a), -a * mae(logits, labels), rtol=1e-6)


def test_rce_and_sce_default_to_the_papers_constants() -> None:
    logits, labels = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([0])
    p = float(p_label(logits, labels)[0])
    assert_allclose(rce(logits, labels), [4 * (1 - p)], rtol=1e-5)
    assert_allclose(sce(logits, labels), [-0.1 * np.log(p) + 4 * (1 - p)], rtol=1e-5)


@given(batch=batches(), alpha=st.floats(0, 6), beta=st.floats(0, 6))
@deterministic
def test_sce_matches_its_definition(batch: tuple[Tensor, Tensor], alpha: float, beta: float) -> None:
    p = p_label(*batch)
    assert_allclose(
        sce(*batch, alpha=alpha, beta=beta, A=-2), -alpha * np.log(p) + 2 * beta * (1 - p), rtol=1e-4, atol=1e-5
    )


@given(batch=batches(), q=st.floats(0.05, 1))
@deterministic
def test_gce_matches_its_definition(batch: tuple[Tensor, Tensor], q: float) -> None:
    assert_allclose(gce(*batch, q=q), (1 - p_label(*batch) ** q) / q, rtol=1e-4, atol=1e-6)


@given(batch=batches())
@deterministic
def test_gce_runs_from_cross_entropy_to_mae(batch: tuple[Tensor, Tensor]) -> None:
    assert_allclose(gce(*batch, q=1e-6), cross_entropy(*batch), rtol=1e-4)
    assert_allclose(gce(*batch, q=1), mae(*batch), rtol=1e-6)


@given(batch=batches(), T=st.floats(0, 16))
@deterministic
def test_the_gradient_of_imae_is_its_definition(batch: tuple[Tensor, Tensor], T: float) -> None:
    """-w/2 at the label's logit, w/2 · p_j / (1 - p_y) at the others, w = exp(T p_y (1 - p_y))."""
    logits, labels = batch
    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(imae(logits, labels, T=T).sum(), logits)
    p, p_y = probabilities(logits), p_label(logits, labels)
    w = np.exp(T * p_y * (1 - p_y))
    expected = w[:, None] / 2 * p / (1 - p_y)[:, None]
    expected[np.arange(len(p)), labels.numpy()] = -w / 2
    compared = p_y < 0.999  # above, float32 has few digits of 1 - p_y
    assert_allclose(gradient.numpy()[compared], expected[compared], rtol=2e-3, atol=1e-5)


def test_imae_is_cross_entropy_with_a_weight_that_has_no_gradient() -> None:
    """Neither w·CE nor w·MAE: the norm of the gradient is w itself, 1 at both ends and e^(T/4) halfway."""
    p_y = torch.tensor([1e-6, 0.5, 0.9, 0.999])
    logits = torch.stack([p_y.log(), (1 - p_y).log()], dim=1).requires_grad_()
    labels = torch.zeros(4, dtype=torch.int64)
    (gradient,) = torch.autograd.grad(imae(logits, labels).sum(), logits)
    assert_allclose(gradient.abs().sum(1), (8 * p_y * (1 - p_y)).exp(), rtol=2e-3)
    assert_allclose(gradient.abs().sum(1)[1], np.e**2, rtol=1e-5)


@given(batch=batches(), gamma=st.floats(0, 5))
@deterministic
def test_nce_and_nfl_match_their_definitions(batch: tuple[Tensor, Tensor], gamma: float) -> None:
    p, p_y = probabilities(batch[0]), p_label(*batch)
    assert_allclose(nce(*batch), np.log(p_y) / np.log(p).sum(1), rtol=1e-4, atol=1e-6)
    expected = (1 - p_y) ** gamma * np.log(p_y) / ((1 - p) ** gamma * np.log(p)).sum(1)
    assert_allclose(nfl(*batch, gamma=gamma), expected, rtol=1e-3, atol=1e-6)


@given(batch=batches())
@deterministic
def test_nfl_without_focus_is_nce(batch: tuple[Tensor, Tensor]) -> None:
    assert_allclose(nfl(*batch, gamma=0), nce(*batch), rtol=1e-6)


def test_the_nfl_factors_carry_no_gradient() -> None:
    logits, labels = torch.tensor([[0.3, -1.2, 0.8]], requires_grad=True), torch.tensor([1])
    (gradient,) = torch.autograd.grad(nfl(logits, labels, gamma=2).sum(), logits)
    w = (1 - probabilities(logits)[0]) ** 2  # constants
    step, numeric = 1e-5, []
    for k in range(3):
        moved = []
        for sign in (1, -1):
            shifted = logits.detach().double()
            shifted[0, k] += sign * step
            log_p = np.log(probabilities(shifted)[0])
            moved.append(w[1] * log_p[1] / (w * log_p).sum())
        numeric.append((moved[0] - moved[1]) / (2 * step))
    assert_allclose(gradient[0], numeric, rtol=1e-3)


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("mae", lambda k: k - 1),
        ("rce(A=-4)", lambda k: 4 * (k - 1)),
        ("nce", lambda k: 1),
        ("nfl(gamma=0.5)", lambda k: 1),
        ("10*nce+mae", lambda k: 10 + k - 1),
    ],
)
@given(batch=batches())
@deterministic
def test_symmetric_losses_sum_to_a_constant_over_labels(text: str, total: object, batch: tuple[Tensor, Tensor]) -> None:
    logits, _ = batch
    assert callable(total)
    over_labels = torch.stack([parse(text)(logits, labels) for labels in every_label(logits)]).sum(0)
    assert_allclose(over_labels, np.full(len(logits), total(logits.shape[1])), rtol=1e-4)


def test_cross_entropy_is_not_symmetric() -> None:
    flat, sharp = torch.zeros(1, 3), torch.tensor([[5.0, 0.0, 0.0]])
    sums = [torch.stack([cross_entropy(x, y) for y in every_label(x)]).sum() for x in (flat, sharp)]
    assert sums[1] > sums[0] + 1


@given(batch=batches())
@deterministic
def test_nce_lies_between_0_and_1(batch: tuple[Tensor, Tensor]) -> None:
    assert ((nce(*batch) > 0) & (nce(*batch) < 1)).all()


@given(batch=batches(size=3))
@deterministic
def test_negative_learning_and_its_gradient_match_their_definition(batch: tuple[Tensor, Tensor]) -> None:
    logits, complement = batch
    logits.requires_grad_()
    loss = negative_learning(logits, complement)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    p, p_c = probabilities(logits), p_label(logits, complement)[:, None]
    is_complement = np.eye(p.shape[1])[complement.numpy()] == 1
    assert_allclose(loss.detach(), -np.log(1 - p_c[:, 0]), rtol=1e-4, atol=1e-5)
    assert_allclose(gradient, np.where(is_complement, p_c, -p_c * p / (1 - p_c)), rtol=1e-4, atol=1e-5)


@given(batch=batches(size=3))
@deterministic
def test_negative_learning_of_several_classes_is_the_sum_over_them(batch: tuple[Tensor, Tensor]) -> None:
    logits, _ = batch
    weights = torch.tensor(np.random.default_rng(0).integers(0, 3, logits.shape))
    expected = sum(weights[:, k] * negative_learning(logits, y) for k, y in enumerate(every_label(logits)))
    assert isinstance(expected, Tensor)
    assert_allclose(negative_learning(logits, weights), expected, rtol=1e-5, atol=1e-6)


def test_negative_learning_has_no_gradient_above_its_floor() -> None:
    logits = torch.tensor([[20.0, 0.0], [5.0, 0.0]], requires_grad=True)  # 1 - p_c = 2e-9 and 6.7e-3
    loss = negative_learning(logits, torch.tensor([0, 0]))
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert_allclose(loss[0].item(), -np.log(1e-5), rtol=1e-6)
    assert (gradient[0] == 0).all()
    assert (gradient[1] != 0).all()


@given(seed=st.integers(0, 10**6), n=st.integers(2, 8))
@deterministic
def test_class_balance_is_a_divergence_that_vanishes_at_the_prior_only(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    h, pi = rng.dirichlet(np.ones(n)).clip(1e-4), rng.dirichlet(np.ones(n)).clip(1e-4)
    h, pi = h / h.sum(), pi / pi.sum()
    value = class_balance(torch.tensor(h), torch.tensor(pi)).item()
    assert_allclose(value, np.sum(pi * np.log(pi / h)), rtol=1e-4, atol=1e-5)
    assert value > 0
    assert_allclose(class_balance(torch.tensor(pi), torch.tensor(pi)).item(), 0, atol=1e-6)
    assert_allclose(class_balance(torch.tensor(h)).item(), np.mean(-np.log(n * h)), rtol=1e-4, atol=1e-5)


def test_class_balance_ignores_classes_the_prior_excludes() -> None:
    h = torch.tensor([0.5, 0.5, 0.0], requires_grad=True)
    value = class_balance(h, torch.tensor([0.25, 0.75, 0.0]))
    (gradient,) = torch.autograd.grad(value, h)
    assert_allclose(value.item(), 0.25 * np.log(0.5) + 0.75 * np.log(1.5), rtol=1e-5)
    assert_allclose(gradient, [-0.5, -1.5, 0.0], rtol=1e-6)


def test_class_balance_of_a_class_nobody_predicts_is_bounded_by_the_floor() -> None:
    h = torch.tensor([1.0, 0.0], requires_grad=True)
    value = class_balance(h)
    (gradient,) = torch.autograd.grad(value, h)
    assert_allclose(value.item(), 0.5 * np.log(0.5) + 0.5 * np.log(0.5 / 1e-8), rtol=1e-5)
    assert gradient.isfinite().all()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: gce(x, y, q=0),
        lambda x, y: gce(x, y, q=1.1),
        lambda x, y: gce(x, y, q=float("nan")),
        lambda x, y: rce(x, y, A=0),
        lambda x, y: rce(x, y, A=4),
        lambda x, y: sce(x, y, alpha=-1),
        lambda x, y: sce(x, y, beta=float("inf")),
        lambda x, y: focal(x, y, gamma=-0.5),
        lambda x, y: nfl(x, y, gamma=float("nan")),
    ],
)
def test_parameters_out_of_range_are_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match="must be"):
        call(torch.zeros(1, 2), torch.tensor([0]))
