"""Label noise that depends on the true class and on the difficulty of a row.

P(given = k | true = j, difficulty u) = 1 - ε_j(u) if k = j, else ε_j(u)·M[j, k], with logit ε_j(u) = a_j + b·(u - ½).

A transition matrix alone (b = 0) assumes that hard rows are mislabeled as often as easy ones. That holds for synthetic
noise, but not for people: on CIFAR-10N their error rate grows tenfold from the easiest to the hardest sixth of the
rows, and its log-odds grow linearly with the rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pars.audit.calibration import FLOOR, Floats, Integers, sums_by

BINS = 20  # of difficulty
STEPS = 30  # of EM, at most
DECONVOLUTIONS = 3
PRIOR_VARIANCE_CLASS = 1.0  # of the log-odds a_j around their mean
PRIOR_VARIANCE_SLOPE = 9.0
CONCENTRATIONS = 10.0 ** np.arange(-1, 6.5, 0.5)


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """Log-odds `a` [K], slope `b`, and the flip probabilities M [K, K] (rows sum to one, the diagonal is zero)."""

    a: Floats
    b: float
    flip_probs: Floats

    def rates(self, difficulty: Floats) -> Floats:
        """Return ε [n, K]: the probability that a row of this difficulty [n] is mislabeled, for each true class."""
        return _logistic(self.a + self.b * centers()[:, None])[_bin_of(difficulty)]

    def likelihood(self, difficulty: Floats, labels: Integers) -> Floats:
        """Return P(given label | true class) [n, K] of labeled rows with this difficulty [n] and labels [n]."""
        rates = self.rates(difficulty)
        out: Floats = rates * self.flip_probs[:, labels].T
        rows = np.arange(len(labels))
        out[rows, labels] = 1 - rates[rows, labels]
        return out

    def denoise(self, log_p: Floats, difficulty: Floats) -> Floats:
        """Return log-probabilities [n, K] of true classes from those of given labels, by Richardson-Lucy deconvolution.

        p(given) = Σ_j g(true j)·P(given | j): if half of the dogs are labeled cat, a row predicted half cat and half
        dog is a dog. Few steps: an exact inverse would amplify the network's errors.
        """
        rates, p = self.rates(difficulty), np.exp(log_p)
        g = p
        for _ in range(DECONVOLUTIONS):
            expected = g * (1 - rates) + (g * rates) @ self.flip_probs
            ratio = p / np.maximum(expected, 1e-12)
            g = g * ((1 - rates) * ratio + rates * (ratio @ self.flip_probs.T))
        out: Floats = np.log(np.maximum(g, FLOOR))
        return out


def fit_noise_model(clean: Floats, labels: Integers, difficulty: Floats) -> NoiseModel:
    """Return the noise model of labeled rows, fitted by EM.

    clean [m, K]: class probabilities without the label; labels [m]; difficulty [m] from 0 to 1.
    E step: q_i[j] ∝ clean_i[j]·P(label of i | j). M step: parameters from the expected counts of (true, given,
    difficulty).
    """
    rows, n_classes = np.arange(len(labels)), clean.shape[1]
    bins = _bin_of(difficulty)
    q, model = clean, None
    for _ in range(STEPS):
        total = sums_by(bins, q, BINS)
        right = np.zeros_like(total)
        np.add.at(right, (bins, labels), q[rows, labels])
        before = model
        a, b = fit_rates(total, np.maximum(total - right, 0))
        model = NoiseModel(a, b, fit_flip_probs(sums_by(labels, q, n_classes).T))
        if before is not None and abs(_logistic(a) - _logistic(before.a)).max() + abs(b - before.b) < 1e-4:
            break
        q = clean * model.likelihood(difficulty, labels)
        q /= np.maximum(q.sum(axis=1, keepdims=True), 1e-300)
    assert model is not None
    return model


def fit_rates(total: Floats, wrong: Floats) -> tuple[Floats, float]:
    """Return log-odds a [K] and slope b of the error rate: a logistic regression by Newton's method.

    total, wrong [bins, K]: expected counts of rows and of wrong labels. Priors: a_j around the mean of all classes
    (which has half a wrong label added to one row), b around zero.
    """
    x = centers()[:, None]
    share = (wrong.sum() + 0.5) / (total.sum() + 1)
    mean = float(np.log(share / (1 - share)))
    a, b = np.full(total.shape[1], mean), 0.0
    for _ in range(30):
        rates = _logistic(a + b * x)
        weight, residual = total * rates * (1 - rates), wrong - total * rates
        curve_a = weight.sum(axis=0) + 1 / PRIOR_VARIANCE_CLASS
        curve_ab = (weight * x).sum(axis=0)
        curve_b = float((weight * x**2).sum()) + 1 / PRIOR_VARIANCE_SLOPE
        slope_a = residual.sum(axis=0) - (a - mean) / PRIOR_VARIANCE_CLASS
        slope_b = float((residual * x).sum()) - b / PRIOR_VARIANCE_SLOPE
        # The block of a in the Hessian is diagonal: eliminate it, solve for b, substitute back.
        step_b = (slope_b - (curve_ab * slope_a / curve_a).sum()) / (curve_b - (curve_ab**2 / curve_a).sum())
        step_a = (slope_a - curve_ab * step_b) / curve_a
        largest = max(1.0, float(np.abs(step_a).max()), abs(step_b))
        a, b = a + step_a / largest, b + step_b / largest
        if largest * max(abs(step_b), float(np.abs(step_a).max())) < 1e-8:
            break
    return a, float(b)


def fit_flip_probs(counts: Floats) -> Floats:
    """Return flip probabilities [K, K] from expected counts [true, given].

    Classes with few counts are smoothed toward the overall distribution of wrong labels. The strength of this Dirichlet
    prior maximizes the leave-one-out likelihood: strong for symmetric noise, weak for noise in one direction.
    """
    n_classes = len(counts)
    wrong = counts * (1 - np.eye(n_classes))
    overall = wrong.sum(axis=0) + wrong.sum() / n_classes**2 + 1.0 / n_classes
    prior = np.tile(overall, (n_classes, 1)) * (1 - np.eye(n_classes))
    prior /= prior.sum(axis=1, keepdims=True)
    rows = wrong.sum(axis=1, keepdims=True)
    observed = wrong > 0

    def leave_one_out(concentration: float) -> float:
        one_less = (wrong - 1 + concentration * prior) / np.maximum(rows - 1 + concentration, 1e-12)
        return float((wrong[observed] * np.log(np.maximum(one_less[observed], 1e-12))).sum())

    best = max(CONCENTRATIONS, key=leave_one_out)
    out: Floats = (wrong + best * prior) / (rows + best)
    return out


def _bin_of(difficulty: Floats) -> Integers:
    return np.minimum((difficulty * BINS).astype(np.int64), BINS - 1)


def centers() -> Floats:
    """Return the centers [bins] of the difficulty bins, minus ½."""
    out: Floats = (np.arange(BINS) + 0.5) / BINS - 0.5
    return out


def _logistic(x: Floats) -> Floats:
    out: Floats = 1 / (1 + np.exp(-np.clip(x, -30, 30)))
    return out
