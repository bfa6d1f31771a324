"""Temporal ensembling against a loop over what was said of each row."""

from __future__ import annotations

import numpy as np
import torch
from numpy.testing import assert_allclose

from pars.methods.parts import temporal

ROWS, CLASSES, MOMENTUM = 6, 3, 0.6


def test_the_average_is_that_of_all_that_was_said_weighted_by_age() -> None:
    rng = np.random.default_rng(0)
    state = temporal.initial_ensemble(ROWS, CLASSES)
    said: dict[int, list[np.ndarray]] = {}
    for _ in range(5):
        rows = rng.choice(ROWS - 1, size=3, replace=False)  # the last row is never seen
        logits = rng.normal(size=(3, CLASSES))
        temporal.update(state, torch.from_numpy(rows), torch.from_numpy(logits), MOMENTUM)
        for row, row_logits in zip(rows.tolist(), logits, strict=True):
            said.setdefault(row, []).append(np.exp(row_logits) / np.exp(row_logits).sum())
    otherwise = torch.from_numpy(rng.normal(size=(ROWS, CLASSES))).float()
    found = temporal.ensemble_logits(state, torch.arange(ROWS), otherwise)
    assert len(said) > 1
    for row in range(ROWS):
        if row not in said:
            assert torch.equal(found[row], otherwise[row])
            continue
        weights = [MOMENTUM**age for age in reversed(range(len(said[row])))]
        expected = np.average(said[row], axis=0, weights=weights)
        assert_allclose(found[row].softmax(0).numpy(), expected, rtol=1e-5)


def test_a_row_that_is_in_the_batch_twice_counts_once() -> None:
    once, twice = temporal.initial_ensemble(2, 2), temporal.initial_ensemble(2, 2)
    logits = torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0]])
    temporal.update(once, torch.tensor([0, 1]), logits[:2], MOMENTUM)
    temporal.update(twice, torch.tensor([0, 1, 0]), logits, MOMENTUM)
    assert all(torch.equal(once[name], twice[name]) for name in once)


def test_certainty_has_finite_logits() -> None:
    state = temporal.initial_ensemble(1, 2)
    temporal.update(state, torch.tensor([0]), torch.tensor([[1e4, -1e4]]), MOMENTUM)
    assert temporal.ensemble_logits(state, torch.tensor([0]), torch.zeros(1, 2)).isfinite().all()
