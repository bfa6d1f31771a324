"""The MixMatch step against float64, row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from methods.by_hand import Rows, random, step_of
from methods.reference import softmax
from pars.methods.parts.mixing import MixMatchBatch, mixmatch


@pytest.mark.parametrize("weights", [None, [0.5, 3.0, 0.0, 1.0]])
def test_the_losses_are_those_of_pairs_mixed_over_the_whole_batch(weights: list[float] | None) -> None:
    views = [random(seed, n, 4) for seed, n in ((0, 3), (1, 3), (2, 5), (3, 5))]
    labeled, guessed = random(4, 3, 4).softmax(1), random(5, 5, 4).softmax(1)
    nobody: Rows = (torch.arange(3), torch.zeros(3, dtype=torch.int64), {})
    step = step_of({"labeled": nobody}, {}, seed=7)
    matched = mixmatch(step, step.net, views[:2], labeled, views[2:], guessed, alpha=0.75)

    rng = np.random.default_rng(7)
    share = rng.beta(0.75, 0.75)
    share = max(share, 1 - share)
    partners = rng.permutation(16)
    inputs = np.concatenate([view.double().numpy() for view in views])
    targets = np.concatenate([t.double().numpy() for t in (labeled, labeled, guessed, guessed)])
    entropy = error = 0.0
    for i, j in enumerate(partners):
        p = softmax(share * inputs[i] + (1 - share) * inputs[j])
        t = share * targets[i] + (1 - share) * targets[j]
        if i < 6:
            entropy += sum((1 if weights is None else weights[k]) * -t[k] * np.log(p[k]) for k in range(4)) / 6
        else:
            error += sum((p[k] - t[k]) ** 2 for k in range(4)) / (10 * 4)
    given = None if weights is None else torch.tensor(weights)
    assert_allclose(matched.cross_entropy(given), entropy, rtol=1e-5)
    assert_allclose(matched.squared_error(), error, rtol=1e-5)


def test_the_class_balance_is_of_the_mean_prediction_over_all_rows() -> None:
    logits = random(0, 5, 3)
    h = np.mean([softmax(row) for row in logits.double().numpy()], axis=0)
    expected = sum(np.log(1 / 3 / h[k]) / 3 for k in range(3))
    assert_allclose(MixMatchBatch(logits, logits, 2).class_balance(), expected, rtol=1e-5)


def test_rows_without_a_label_may_be_partners_only() -> None:
    views = [random(seed, n, 4) for seed, n in ((0, 3), (1, 3), (2, 5), (3, 5))]
    labeled, guessed = random(4, 3, 4).softmax(1), random(5, 5, 4).softmax(1)
    nobody: Rows = (torch.arange(3), torch.zeros(3, dtype=torch.int64), {})
    every, some = (
        mixmatch(step, step.net, views[:2], labeled, views[2:], guessed, alpha=0.75, labeled_only=labeled_only)
        for step, labeled_only in ((step_of({"labeled": nobody}, {}, seed=7), only) for only in (False, True))
    )
    assert (len(every.logits), len(some.logits), some.n_labeled) == (16, 6, 6)
    assert torch.equal(some.logits, every.logits[:6])
    assert torch.equal(some.targets, every.targets[:6])


def test_without_unlabeled_rows_there_is_no_error_to_square() -> None:
    matched = MixMatchBatch(random(0, 4, 3), random(1, 4, 3).softmax(1), 4)
    assert matched.squared_error().item() == 0
