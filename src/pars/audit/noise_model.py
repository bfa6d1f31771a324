"""How labels go wrong: how often, by true class and by how hard a row is, and what they turn into.

P(given = k | true = j, difficulty u) = 1 - ε_j(u) if k = j, else ε_j(u)·M[j, k], with logit ε_j(u) = a_j + b·(u - ½).

A transition matrix alone (b = 0) says that hard rows are mislabeled as often as easy ones. Synthetic noise is like
that; people are not: on CIFAR-10N their error rate grows tenfold from the easiest to the hardest sixth of the rows, and
its log-odds grow linearly with the rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pars.audit.calibration import FLOOR, Floats, Integers, sums_by

BINS = 20  # of difficulty
STEPS = 30  # of EM, at most
DECONVOLUTIONS = 3
PRIOR_VARIANCE_CLASS = 1.0  # of a class's log-odds around those of all classes
PRIOR_VARIANCE_SLOPE = 9.0
CONCENTRATIONS = 10.0 ** np.arange(-1, 6.5, 0.5)


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """Parameters: log-odds `a` [K], slope `b`, and `turns_into` [K, K] (M; rows sum to one, its diagonal is zero)."""

    a: Floats
    b: float
    turns_into: Floats

    def rates(self, difficulty: Floats) -> Floats:
        """ε [n, K]: the probability that a row of this difficulty and each true class is mislabeled."""
        return logistic(self.a + self.b * centers()[:, None])[bin_of(difficulty)]

    def likelihood(self, difficulty: Floats, labels: Integers) -> Floats:
        """P(given label | true class) [n, K] of labeled rows."""
        rates = self.rates(difficulty)
        out: Floats = rates * self.turns_into[:, labels].T
        rows = np.arange(len(labels))
        out[rows, labels] = 1 - rates[rows, labels]
        return out

    def without(self, log_p: Floats, difficulty: Floats) -> Floats:
        """Log-probabilities [n, K] of true classes from those of given labels, by Richardson-Lucy deconvolution.

        p(given) = Σ_j g(true j)·P(given | j): a row that is half cat and half dog because half of the dogs are labeled
        cat is a dog. Few steps: an exact inverse would take the network's errors for information.
        """
        rates, p = self.rates(difficulty), np.exp(log_p)
        g = p
        for _ in range(DECONVOLUTIONS):
            expected = g * (1 - rates) + (g * rates) @ self.turns_into
            ratio = p / np.maximum(expected, 1e-12)
            g = g * ((1 - rates) * ratio + rates * (ratio @ self.turns_into.T))
        out: Floats = np.log(np.maximum(g, FLOOR))
        return out


def fit(clean: Floats, labels: Integers, difficulty: Floats) -> NoiseModel:
    """Fit to labeled rows [m] whose class probabilities before the label are `clean` [m, K], by EM.

    q_i[j] ∝ clean_i[j]·P(label of i | j); then the parameters from the expected counts of (true, given, difficulty).
    """
    rows, n_classes = np.arange(len(labels)), clean.shape[1]
    bins = bin_of(difficulty)
    q, model = clean, None
    for _ in range(STEPS):
        total = sums_by(bins, q, BINS)
        right = np.zeros_like(total)
        np.add.at(right, (bins, labels), q[rows, labels])
        before = model
        a, b = fit_rates(total, np.maximum(total - right, 0))
        model = NoiseModel(a, b, fit_turns(sums_by(labels, q, n_classes).T))
        if before is not None and abs(logistic(a) - logistic(before.a)).max() + abs(b - before.b) < 1e-4:
            break
        q = clean * model.likelihood(difficulty, labels)
        q /= np.maximum(q.sum(axis=1, keepdims=True), 1e-300)
    assert model is not None
    return model


def fit_rates(total: Floats, wrong: Floats) -> tuple[Floats, float]:
    """Log-odds by class and the common slope from rows and wrong labels [bins, K]: a logistic regression by Newton.

    Priors: classes around the mean of all, that mean by one row that counts half wrong, the slope around zero.
    """
    x = centers()[:, None]
    share = (wrong.sum() + 0.5) / (total.sum() + 1)
    mean = float(np.log(share / (1 - share)))
    a, b = np.full(total.shape[1], mean), 0.0
    for _ in range(30):
        rates = logistic(a + b * x)
        weight, residual = total * rates * (1 - rates), wrong - total * rates
        curve_a = weight.sum(axis=0) + 1 / PRIOR_VARIANCE_CLASS
        curve_ab = (weight * x).sum(axis=0)
        curve_b = float((weight * x**2).sum()) + 1 / PRIOR_VARIANCE_SLOPE
        slope_a = residual.sum(axis=0) - (a - mean) / PRIOR_VARIANCE_CLASS
        slope_b = float((residual * x).sum()) - b / PRIOR_VARIANCE_SLOPE
        # The classes' part of the Hessian is diagonal: eliminate them, solve for b, go back.
        step_b = (slope_b - (curve_ab * slope_a / curve_a).sum()) / (curve_b - (curve_ab**2 / curve_a).sum())
        step_a = (slope_a - curve_ab * step_b) / curve_a
        largest = max(1.0, float(np.abs(step_a).max()), abs(step_b))
        a, b = a + step_a / largest, b + step_b / largest
        if largest * max(abs(step_b), float(np.abs(step_a).max())) < 1e-8:
            break
    return a, float(b)


def fit_turns(counts: Floats) -> Floats:
    """What wrong labels of each class turn into [K, K], from counts [true, given].

    A row of few counts is drawn to the classes' share in all wrong labels, as strongly as predicts best each label from
    all others: labels that are wrong at random are spread evenly, labels that are wrong in one direction are not.
    """
    n_classes = len(counts)
    wrong = counts * (1 - np.eye(n_classes))
    usual = wrong.sum(axis=0) + wrong.sum() / n_classes**2 + 1.0 / n_classes
    prior = np.tile(usual, (n_classes, 1)) * (1 - np.eye(n_classes))
    prior /= prior.sum(axis=1, keepdims=True)
    rows = wrong.sum(axis=1, keepdims=True)
    seen = wrong > 0

    def left_out(concentration: float) -> float:
        one_less = (wrong - 1 + concentration * prior) / np.maximum(rows - 1 + concentration, 1e-12)
        return float((wrong[seen] * np.log(np.maximum(one_less[seen], 1e-12))).sum())

    best = max(CONCENTRATIONS, key=left_out)
    out: Floats = (wrong + best * prior) / (rows + best)
    return out


def bin_of(difficulty: Floats) -> Integers:
    return np.minimum((difficulty * BINS).astype(np.int64), BINS - 1)


def centers() -> Floats:
    out: Floats = (np.arange(BINS) + 0.5) / BINS - 0.5
    return out


def logistic(x: Floats) -> Floats:
    out: Floats = 1 / (1 + np.exp(-np.clip(x, -30, 30)))
    return out
