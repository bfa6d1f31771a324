"""The ring of softmax outputs against lists, one per row."""

from __future__ import annotations

import numpy as np
import torch
from numpy.testing import assert_allclose

from methods.reference import Array, softmax
from pars.methods.parts import history


def test_the_mean_is_over_the_last_ten_outputs_of_each_row() -> None:
    rng = np.random.default_rng(0)
    state = history.empty(7, 3)
    said: list[list[Array]] = [[] for _ in range(7)]
    for _ in range(25):
        rows = rng.choice(6, size=rng.integers(1, 6), replace=False)  # the last row is never seen
        logits = rng.standard_normal((len(rows), 3))
        history.write(state, torch.from_numpy(rows), torch.from_numpy(logits))
        for row, values in zip(rows, logits, strict=True):
            said[row].append(softmax(values))
    assert min(map(len, said[:6])) < 10 < max(map(len, said))  # some rings are full, some are not
    expected = [np.mean(outputs[-10:], axis=0) if outputs else np.full(3, 1 / 3) for outputs in said]
    assert_allclose(history.mean(state), expected, rtol=2**-11)
    rows = np.array([5, 0, 6, 0])
    assert torch.equal(history.mean(state, torch.from_numpy(rows)), history.mean(state)[rows])


def test_a_row_that_is_in_a_batch_twice_is_written_once() -> None:
    state, once = history.empty(3, 2), history.empty(3, 2)
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 5.0]])
    history.write(state, torch.tensor([1, 2, 1]), logits)
    history.write(once, torch.tensor([1, 2]), logits[:2])
    assert torch.equal(state["history"], once["history"])
    assert state["history_writes"].tolist() == [0, 1, 1]


def test_nothing_is_left_after_forgetting() -> None:
    state = history.empty(2, 4)
    history.write(state, torch.tensor([0, 1]), torch.randn(2, 4, generator=torch.manual_seed(0)))
    history.forget(state)
    assert_allclose(history.mean(state), 0.25)


def test_writing_keeps_no_graph() -> None:
    logits = torch.zeros(1, 2, requires_grad=True)
    state = history.empty(1, 2)
    history.write(state, torch.tensor([0]), logits)
    assert not history.mean(state).requires_grad
