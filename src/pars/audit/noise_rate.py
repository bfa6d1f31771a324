"""Estimators of the noise rate with different biases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pars.audit.calibration import Floats, Integers, sums_by

STEPS = 60
PRIOR_ROWS = 10.0  # strength of the Dirichlet prior of each row of T
SLACK = 0.01  # added to the upper end: no estimator sees errors that annotators and the network share


def transition_em(clean: Floats, labels: Integers) -> tuple[float, Floats]:
    """Return the noise rate and the transition matrix T[j, k] = P(given k | true j), fitted by EM.

    clean [n, K]: class probabilities without the label; labels [n].
    E step: q_i[j] ∝ clean_i[j]·T[j, y_i]. M step: T from expected counts and a Dirichlet prior whose diagonal is the
    fraction of correct labels in the last step, the rest distributed as the given labels.
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
    """Return the noise rate by Dawid & Skene (1979), with the given labels as one of the annotators.

    labels [m] and views [m] each: class numbers, none missing. Every annotator has a confusion matrix; the posterior is
    initialized by majority vote.
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
            # The prior adds two correct votes per class.
            counts = sums_by(vote, q, n_classes).T + 1.0 / n_classes + 2 * np.eye(n_classes)
            log_q += np.log(counts / counts.sum(axis=1, keepdims=True))[:, vote].T
        log_q -= log_q.max(axis=1, keepdims=True)
        before, q = q, np.exp(log_q)
        q /= q.sum(axis=1, keepdims=True)
        if abs(q - before).max() < 1e-4:
            break
    return float(1 - q[rows, labels].mean())


def plausible_range(estimates: dict[str, float], n: int) -> tuple[float, float]:
    """Return the range of the estimates, widened by two standard errors (n rows) and a slack at the upper end.

    It is not a confidence interval: a bias that all estimators share stays invisible. The confident count
    underestimates; disagreement overestimates by the errors of the network, and misses errors that annotators and the
    network share.
    """
    low, high = min(estimates.values()), max(estimates.values())

    def error(rate: float) -> float:
        return 2 * float(np.sqrt(max(rate * (1 - rate), 1 / n) / n))

    return max(0.0, low - error(low)), min(1.0, high + error(high) + SLACK)
