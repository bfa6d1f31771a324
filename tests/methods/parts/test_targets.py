"""Entropy, divergence and complementary labels against their definitions, row by row."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.testing import assert_allclose

from methods.reference import make_step, others, random_labels, random_logits, softmax
from pars.methods.parts.targets import complement_counts, entropy, kl_divergence

P, Q = (4 * torch.randn(6, 5, generator=torch.manual_seed(seed)) for seed in (0, 1))


def test_entropy_and_divergence_match_their_definitions() -> None:
    p, q = ([softmax(row) for row in logits.double().numpy()] for logits in (P, Q))
    assert_allclose(entropy(P), [-sum(x * math.log(x) for x in row) for row in p], rtol=1e-5)
    expected = [sum(x * math.log(x / y) for x, y in zip(*rows, strict=True)) for rows in zip(p, q, strict=True)]
    assert_allclose(kl_divergence(P, Q), expected, rtol=1e-5)
    assert_allclose(kl_divergence(P, P), torch.zeros(6), atol=1e-6)


def test_a_prediction_that_is_all_but_certain_has_finite_gradients() -> None:
    logits = torch.tensor([[200.0, 0.0]], requires_grad=True)
    (entropy(logits) + kl_divergence(logits, torch.zeros(1, 2))).sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_complementary_labels_are_counted_by_class() -> None:
    labels = random_labels(7)
    logits = random_logits(7)
    counts = complement_counts(make_step(logits, labels, seed=3), labels, 4, 6)
    for i, drawn in enumerate(others(labels.tolist(), 4, 6, np.random.default_rng(3))):
        assert counts[i].tolist() == [sum(c == k for c in drawn) for k in range(4)]
