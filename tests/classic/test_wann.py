"""WANN against loops over rows, neighbors and votes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from pars.classic.wann import WANN, NeighborVotes, adaptive_k
from pars.errors import UserError

K = 3


def clouds(n: int = 90, seed: int = 0) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    true = rng.integers(K, size=n)
    x = (2 * np.eye(K)[true] + rng.standard_normal((n, K))).astype(np.float32)
    return x, np.where(rng.random(n) < 0.3, rng.integers(K, size=n), true)


def sorted_by_distance(x: npt.NDArray[np.float32], point: npt.NDArray[np.float32], leave_out: int = -1) -> list[int]:
    distances = [float(((row.astype(np.float64) - point) ** 2).sum()) for row in x]
    return sorted((i for i in range(len(x)) if i != leave_out), key=lambda i: distances[i])


def fewest_neighbors(x: npt.NDArray[np.float32], y: npt.NDArray[np.int64], i: int, k_min: int, k_max: int) -> int:
    near = sorted_by_distance(x, x[i], leave_out=i)
    for k in range(k_min, k_max, 2):
        votes = [sum(y[j] == c for j in near[:k]) for c in range(K)]
        if votes.index(max(votes)) == y[i]:  # the first of tied classes
            return k
    return k_max


def votes_of(near: list[int], y: npt.NDArray[np.int64], ks: list[int]) -> tuple[list[float], int]:
    """The weights of the classes, and the winner: of tied ones the class met first."""
    votes, met = [0.0] * K, []
    for j in near[: ks[near[0]]]:
        votes[y[j]] += 1 / ks[j]
        met.append(int(y[j]))
    best = max(votes)
    return votes, next(c for c in met if votes[c] > best - 1e-12)


@pytest.mark.parametrize(("k_min", "k_max"), [(11, 51), (3, 9), (1, 5)])
def test_reliability_and_predictions_are_those_of_loops(k_min: int, k_max: int) -> None:
    x, y = clouds()
    model, out_of_fold = WANN(k_min=k_min, k_max=k_max).fit(x, y, K, seed=0)
    ks = [fewest_neighbors(x, y, i, k_min, k_max) for i in range(len(x))]
    assert model.k.tolist() == ks
    assert len(set(ks)) > 2
    new = clouds(40, seed=1)[0]
    found = model.predict_proba(new)
    for p, point in zip(found, new, strict=True):
        votes, winner = votes_of(sorted_by_distance(x, point), y, ks)
        np.testing.assert_allclose(p, np.array(votes) / sum(votes), atol=2e-6)
        assert p.argmax() == winner
    for i, p in enumerate(out_of_fold):
        votes, winner = votes_of(sorted_by_distance(x, x[i], leave_out=i), y, ks)
        np.testing.assert_allclose(p, np.array(votes) / sum(votes), atol=2e-6)
        assert p.argmax() == winner


def test_of_tied_classes_the_nearest_wins() -> None:
    x = np.array([[0.0], [1.0], [2.0], [3.0]], dtype=np.float32)
    model = NeighborVotes(x, np.array([2, 0, 0, 2]), np.array([4, 4, 4, 4]), 3)
    assert model.predict_proba(np.array([[0.1]]))[0].argmax() == 2
    assert model.predict_proba(np.array([[1.1]]))[0].argmax() == 0
    assert model.predict_proba(np.array([[0.1]]))[0] == pytest.approx([0.5, 0, 0.5], abs=1e-6)


def test_a_row_is_not_its_own_neighbor_even_among_duplicates() -> None:
    """Two copies with different labels: each has the other as its nearest neighbor."""
    x, y = clouds(60)
    x[1], y[0], y[1] = x[0], 0, 1
    _, out_of_fold = WANN(k_min=1, k_max=3).fit(x, y, K, seed=0)
    model, _ = WANN(k_min=1, k_max=3).fit(x, y, K, seed=0)
    near = sorted_by_distance(x, x[0], leave_out=0)
    assert near[0] == 1
    votes, _ = votes_of(near, y, model.k.tolist())
    np.testing.assert_allclose(out_of_fold[0], np.array(votes) / sum(votes), atol=2e-6)


def test_neighbors_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    around, labels = rng.integers(K, size=(50, 9)), rng.integers(K, size=50)
    whole = adaptive_k(around, labels, 3, 9, K)
    monkeypatch.setattr("pars.classic.wann._COUNTS", 9 * K * 7)
    assert adaptive_k(around, labels, 3, 9, K).tolist() == whole.tolist()


def test_too_few_rows_and_impossible_numbers_are_refused() -> None:
    x, y = clouds(51)
    with pytest.raises(UserError, match="wann needs more than 51 labeled rows, there are 51"):
        WANN().fit(x, y, K, seed=0)
    with pytest.raises(UserError, match=r"method\.k_min is 4 and method\.k_max 51, expected odd numbers"):
        WANN(k_min=4)
