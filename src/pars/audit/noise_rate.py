"""How many labels are wrong, estimated in several ways that err in different directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pars.audit.calibration import Floats, Integers, sums_by

STEPS = 60
PRIOR_ROWS = 10.0  # Dirichlet: a class's row of T is drawn to the usual one as if by so many rows
SLACK = 0.01  # of the upper end: errors that people and the network share show nowhere


def transition_em(clean: Floats, labels: Integers) -> tuple[float, Floats]:
    """Noise rate and T[j, k] = P(given k | true j) of labeled rows with class probabilities `clean`, by EM.

    E: q_i[j] ∝ clean_i[j]·T[j, y_i]; M: T from the expected counts and a Dirichlet prior that expects the diagonal as
    often as labels were right in the last step, and the rest as classes are given.
    """
    n, n_classes = clean.shape
    rows = np.arange(n)
    given = (np.bincount(labels, minlength=n_classes) + 1) / (n + n_classes)
    transition = np.full((n_classes, n_classes), 0.2 / (n_classes - 1))
    np.fill_diagonal(transition, 0.8)
    right = 0.8
    for _ in range(STEPS):
        q = clean * transition[:, labels].T
        q /= np.maximum(q.sum(axis=1, keepdims=True), 1e-300)
        before, right = right, float(q[rows, labels].mean())
        counts = sums_by(labels, q, n_classes).T + PRIOR_ROWS * (right * np.eye(n_classes) + (1 - right) * given)
        transition = counts / counts.sum(axis=1, keepdims=True)
        if abs(right - before) < 1e-6:
            break
    return 1 - right, transition


def dawid_skene(labels: Integers, views: Sequence[Integers], n_classes: int) -> float:
    """Noise rate by Dawid & Skene (1979): voters, the given labels one of them, each with its own confusion matrix.

    Shapes: [m] each, no row without a vote. The posterior begins with the majority.
    """
    votes = [labels, *views]
    rows = np.arange(len(labels))
    q = np.full((len(labels), n_classes), 1e-3)
    for vote in votes:
        q[rows, vote] += 1 / len(votes)
    q /= q.sum(axis=1, keepdims=True)
    for _ in range(STEPS):
        prior = q.mean(axis=0) + 1e-9
        log_q = np.tile(np.log(prior), (len(rows), 1))
        for vote in votes:
            counts = (
                sums_by(vote, q, n_classes).T + 1.0 / n_classes + 2 * np.eye(n_classes)
            )  # a few rows that voted right
            log_q += np.log(counts / counts.sum(axis=1, keepdims=True))[:, vote].T
        log_q -= log_q.max(axis=1, keepdims=True)
        before, q = q, np.exp(log_q)
        q /= q.sum(axis=1, keepdims=True)
        if abs(q - before).max() < 1e-4:
            break
    return float(1 - q[rows, labels].mean())


def plausible_range(estimates: dict[str, float], n: int) -> tuple[float, float]:
    """From the least to the most that any estimate says, two standard errors and a slack added.

    The confident count is too low, the disagreement too high where the network errs and too low by what people and the
    network get wrong together. It is no confidence interval: what the estimates share, it does not see.
    """
    low, high = min(estimates.values()), max(estimates.values())

    def error(rate: float) -> float:
        return 2 * float(np.sqrt(max(rate * (1 - rate), 1 / n) / n))

    return max(0.0, low - error(low)), min(1.0, high + error(high) + SLACK)
