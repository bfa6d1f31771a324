"""What a row's nearest neighbors in feature space are, its own label left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pars import seeds
from pars.audit.calibration import Floats, Integers

CELLS = 2**24  # similarities held at a time: 64 MB
VOTERS = 60_000  # of more rows so many, drawn at random, have a vote


def neighbor_votes(
    features: npt.NDArray[Any], classes: Integers, *, n_classes: int, k: int = 10, seed: int = 0
) -> Floats:
    """Shares [n, K] of the classes among each row's k nearest others by cosine; rows of class -1 have no vote.

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
    directions = unit(features)
    of_voters = directions[voters].T
    place = np.full(len(classes), -1)  # where a row stands among the voters
    place[voters] = np.arange(len(voters))
    size = max(1, CELLS // len(voters))
    for start in range(0, len(classes), size):
        similarity = directions[start : start + size] @ of_voters
        own = place[start : start + size]
        votes_itself = np.flatnonzero(own >= 0)
        similarity[votes_itself, own[votes_itself]] = -np.inf
        nearest = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
        rows = np.repeat(np.arange(start, start + len(nearest)), k)
        np.add.at(out, (rows, classes[voters[nearest]].ravel()), 1 / k)
    return out


def unit(features: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Rows of length one around the mean of all, in float32; a row of zeros stays one."""
    flat = features.reshape(len(features), -1).astype(np.float32)
    flat = flat - flat.mean(axis=0)
    length = np.linalg.norm(flat, axis=1, keepdims=True)
    return np.asarray(flat / np.maximum(length, 1e-12), dtype=np.float32)
