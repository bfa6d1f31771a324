"""Votes of the nearest neighbors in feature space."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pars import seeds
from pars.audit.calibration import Floats, Integers

CELLS = 2**24  # similarities in memory at a time: 64 MB
VOTERS = 60_000  # with more labeled rows, a random sample of this size votes


def neighbor_votes(
    features: npt.NDArray[Any], classes: Integers, *, n_classes: int, k: int = 10, seed: int = 0
) -> Floats:
    """Return the fraction [n, K] of each class among a row's k nearest neighbors by cosine similarity.

    features [n, ...]; classes [n]: rows of class -1 do not vote, and no row votes on itself.

    >>> angles = np.array([0.0, 0.1, 0.2, 1.5])
    >>> neighbor_votes(np.stack([np.cos(angles), np.sin(angles)], axis=1), np.array([0, 0, 1, 1]), n_classes=2, k=2)
    array([[0.5, 0.5],
           [0.5, 0.5],
           [1. , 0. ],
           [0.5, 0.5]])
    """
    voters = np.flatnonzero(classes >= 0)
    if len(voters) > VOTERS:
        voters = np.sort(seeds.generator(seed, "audit/voters").permutation(voters)[:VOTERS])
    k = min(k, len(voters) - 1)
    out = np.zeros((len(classes), n_classes))
    if k < 1:
        return out
    directions = _normalized(features)
    of_voters = directions[voters].T
    place = np.full(len(classes), -1)  # position of a row among the voters
    place[voters] = np.arange(len(voters))
    size = max(1, CELLS // len(voters))
    for start in range(0, len(classes), size):
        similarity = directions[start : start + size] @ of_voters
        own = place[start : start + size]
        is_voter = np.flatnonzero(own >= 0)
        similarity[is_voter, own[is_voter]] = -np.inf
        nearest = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
        rows = np.repeat(np.arange(start, start + len(nearest)), k)
        np.add.at(out, (rows, classes[voters[nearest]].ravel()), 1 / k)
    return out


def _normalized(features: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Centered rows of length one in float32; a row of zeros stays zero."""
    flat = features.reshape(len(features), -1).astype(np.float32)
    flat = flat - flat.mean(axis=0)
    length = np.linalg.norm(flat, axis=1, keepdims=True)
    return np.asarray(flat / np.maximum(length, 1e-12), dtype=np.float32)
