"""Stored predictions against lists, one per row."""

from __future__ import annotations

import numpy as np
import torch
from numpy.testing import assert_allclose

from methods.reference import Array, softmax
from pars.methods.parts import prediction_history

ROWS, CLASSES, MOMENTUM = 6, 3, 0.6


def test_the_mean_is_over_the_last_ten_outputs_of_each_row() -> None:
    rng = np.random.default_rng(0)
    state = prediction_history.initial_history(7, 3)
    outputs: list[list[Array]] = [[] for _ in range(7)]
    for _ in range(25):
        rows = rng.choice(6, size=rng.integers(1, 6), replace=False)  # the last row is never seen
        logits = rng.standard_normal((len(rows), 3))
        prediction_history.add_to_history(state, torch.from_numpy(rows), torch.from_numpy(logits))
        for row, values in zip(rows, logits, strict=True):
            outputs[row].append(softmax(values))
    assert min(map(len, outputs[:6])) < 10 < max(map(len, outputs))  # some rings are full, some are not
    expected = [np.mean(own[-10:], axis=0) if own else np.full(3, 1 / 3) for own in outputs]
    assert_allclose(prediction_history.mean_prediction(state), expected, rtol=2**-11)
    rows = np.array([5, 0, 6, 0])
    assert torch.equal(
        prediction_history.mean_prediction(state, torch.from_numpy(rows)),
        prediction_history.mean_prediction(state)[rows],
    )


def test_a_row_that_is_in_a_batch_twice_is_written_once() -> None:
    state, once = prediction_history.initial_history(3, 2), prediction_history.initial_history(3, 2)
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 5.0]])
    prediction_history.add_to_history(state, torch.tensor([1, 2, 1]), logits)
    prediction_history.add_to_history(once, torch.tensor([1, 2]), logits[:2])
    assert torch.equal(state["history"], once["history"])
    assert state["history_writes"].tolist() == [0, 1, 1]


def test_nothing_is_left_after_forgetting() -> None:
    state = prediction_history.initial_history(2, 4)
    prediction_history.add_to_history(state, torch.tensor([0, 1]), torch.randn(2, 4, generator=torch.manual_seed(0)))
    prediction_history.clear_history(state)
    assert_allclose(prediction_history.mean_prediction(state), 0.25)


def test_writing_keeps_no_graph() -> None:
    logits = torch.zeros(1, 2, requires_grad=True)
    state = prediction_history.initial_history(1, 2)
    prediction_history.add_to_history(state, torch.tensor([0]), logits)
    assert not prediction_history.mean_prediction(state).requires_grad


def test_the_average_is_that_of_all_outputs_weighted_by_age() -> None:
    rng = np.random.default_rng(0)
    state = prediction_history.initial_ensemble(ROWS, CLASSES)
    outputs: dict[int, list[np.ndarray]] = {}
    for _ in range(5):
        rows = rng.choice(ROWS - 1, size=3, replace=False)  # the last row is never seen
        logits = rng.normal(size=(3, CLASSES))
        prediction_history.update_ensemble(state, torch.from_numpy(rows), torch.from_numpy(logits), MOMENTUM)
        for row, row_logits in zip(rows.tolist(), logits, strict=True):
            outputs.setdefault(row, []).append(np.exp(row_logits) / np.exp(row_logits).sum())
    otherwise = torch.from_numpy(rng.normal(size=(ROWS, CLASSES))).float()
    found = prediction_history.ensemble_logits(state, torch.arange(ROWS), otherwise)
    assert len(outputs) > 1
    for row in range(ROWS):
        if row not in outputs:
            assert torch.equal(found[row], otherwise[row])
            continue
        weights = [MOMENTUM**age for age in reversed(range(len(outputs[row])))]
        expected = np.average(outputs[row], axis=0, weights=weights)
        assert_allclose(found[row].softmax(0).numpy(), expected, rtol=1e-5)


def test_a_row_that_is_in_the_batch_twice_counts_once() -> None:
    once, twice = prediction_history.initial_ensemble(2, 2), prediction_history.initial_ensemble(2, 2)
    logits = torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0]])
    prediction_history.update_ensemble(once, torch.tensor([0, 1]), logits[:2], MOMENTUM)
    prediction_history.update_ensemble(twice, torch.tensor([0, 1, 0]), logits, MOMENTUM)
    assert all(torch.equal(once[name], twice[name]) for name in once)


def test_certainty_has_finite_logits() -> None:
    state = prediction_history.initial_ensemble(1, 2)
    prediction_history.update_ensemble(state, torch.tensor([0]), torch.tensor([[1e4, -1e4]]), MOMENTUM)
    assert prediction_history.ensemble_logits(state, torch.tensor([0]), torch.zeros(1, 2)).isfinite().all()
