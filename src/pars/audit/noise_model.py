"""A model of label noise that depends on the true class and on difficulty, and other estimators of the noise rate.

P(given = k | true = j, difficulty u) = 1 - ε_j(u) if k = j, else ε_j(u)·M[j, k], with logit ε_j(u) = a_j + b·(u - ½).

A transition matrix alone (b = 0) assumes that hard rows are mislabeled as often as easy ones. That holds for synthetic
noise, but not for people: on CIFAR-10N their error rate grows tenfold from the easiest to the hardest sixth of the
rows, and its log-odds grow linearly with the rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pars.audit.calibration import FLOOR, Floats, Integers, parts, subsample, sums_by

BINS = 20  # of difficulty
STEPS = 30  # of EM, at most
DECONVOLUTIONS = 3
PRIOR_VARIANCE_CLASS = 1.0  # of the log-odds a_j around their mean
PRIOR_VARIANCE_SLOPE = 9.0
CONCENTRATIONS = 10.0 ** np.arange(-1, 6.5, 0.5)
CENTERS: Floats = (np.arange(BINS) + 0.5) / BINS - 0.5  # of the difficulty bins, minus ½
RATE_STEPS = 60  # of EM, at most
PRIOR_ROWS = 10.0  # strength of the Dirichlet prior of each row of T
DENSE_CLASSES = 1000  # with more, confusions of the LARGEST of a row count one by one, others by their mean
LARGEST = 64
PRIOR_CELLS = 2**20  # rows times classes of the confusions from which the strength of their prior is chosen
SLACK = 0.01  # added to the upper end: no estimator sees errors that annotators and the network share


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """Log-odds `a` [K], slope `b`, and the flip probabilities M [K, K] (rows sum to one, the diagonal is zero)."""

    a: Floats
    b: float
    flip_probs: Floats

    def rates(self, difficulty: Floats) -> Floats:
        """Return ε [n, K]: the probability that a row of this difficulty [n] is mislabeled, for each true class."""
        return _logistic(self.a + self.b * CENTERS[:, None])[np.minimum((difficulty * BINS).astype(np.int64), BINS - 1)]

    def likelihood(self, difficulty: Floats, labels: Integers) -> Floats:
        """Return P(given label | true class) [n, K] of labeled rows with this difficulty [n] and labels [n]."""
        out, rows = self.rates(difficulty), np.arange(len(labels))
        right = 1 - out[rows, labels]
        out *= self.flip_probs[:, labels].T
        out[rows, labels] = right
        return out

    def denoise(self, log_p: Floats, difficulty: Floats) -> Floats:
        """Return log-probabilities [n, K] of true classes from those of given labels, by Richardson-Lucy deconvolution.

        p(given) = Σ_j g(true j)·P(given | j): if half of the dogs are labeled cat, a row predicted half cat and half
        dog is a dog. Few steps: an exact inverse would amplify the network's errors.
        """
        rates, p = self.rates(difficulty), np.exp(log_p)
        if p.shape[1] > DENSE_CLASSES:
            return self._denoise_largest(p, rates)
        g = p
        for _ in range(DECONVOLUTIONS):
            expected = g * (1 - rates) + (g * rates) @ self.flip_probs
            ratio = p / np.maximum(expected, 1e-12)
            g = g * ((1 - rates) * ratio + rates * (ratio @ self.flip_probs.T))
        out: Floats = np.log(np.maximum(g, FLOOR))
        return out

    @cached_property
    def mean_flip(self) -> Floats:
        """The mean over true classes of the flip probabilities [K]."""
        out: Floats = self.flip_probs.mean(axis=0)
        return out

    def _denoise_largest(self, p: Floats, rates: Floats) -> Floats:
        """`denoise` of p and rates [n, K], with time in proportion to K instead of K·K.

        Flip probabilities between the largest classes of a row are its own; from and to the others, the mean ones.
        """
        at = np.argpartition(p, -LARGEST, axis=1)[:, -LARGEST:]
        flips, mean = self.flip_probs[at[:, :, None], at[:, None, :]], self.mean_flip
        # Each row of the flip probabilities still has the sum one.
        to_others = (1 - flips.sum(axis=2)) / np.maximum(1 - mean[at].sum(axis=1, keepdims=True), 1e-12)
        g = p
        for _ in range(DECONVOLUTIONS):
            flipped = g * rates
            largest = np.take_along_axis(flipped, at, axis=1)
            rest = flipped.sum(axis=1, keepdims=True) - largest.sum(axis=1, keepdims=True)
            arrived = (rest + (to_others * largest).sum(axis=1, keepdims=True)) * mean
            np.put_along_axis(arrived, at, (largest[:, None] @ flips)[:, 0] + rest * mean[at], axis=1)
            ratio = p / np.maximum(g - flipped + arrived, 1e-12)
            of_largest = np.take_along_axis(ratio, at, axis=1)
            every = (ratio @ mean)[:, None]
            back = np.repeat(every, p.shape[1], axis=1)
            of_others = every - (of_largest * mean[at]).sum(axis=1, keepdims=True)
            np.put_along_axis(back, at, (flips @ of_largest[:, :, None])[:, :, 0] + to_others * of_others, axis=1)
            g = g * ((1 - rates) * ratio + rates * back)
        out: Floats = np.log(np.maximum(g, FLOOR))
        return out


def fit_noise_model(clean: npt.NDArray[np.floating], labels: Integers, difficulty: Floats) -> NoiseModel:
    """Return the noise model of labeled rows, fitted by EM.

    clean [m, K]: class probabilities without the label; labels [m]; difficulty [m] from 0 to 1.
    E step: q_i[j] ∝ clean_i[j]·P(label of i | j). M step: parameters from the expected counts of (true, given,
    difficulty).
    """
    n, n_classes = clean.shape
    bins = np.minimum((difficulty * BINS).astype(np.int64), BINS - 1)
    model = None
    for _ in range(STEPS):
        total, right = np.zeros((BINS, n_classes)), np.zeros((BINS, n_classes))
        counts = np.zeros((n_classes, n_classes))  # of rows, by given and true class
        for part in parts(n, n_classes, least=n_classes // 2):  # with few rows, the counts would be most of the work
            q = clean[part].astype(np.float64)
            if model is not None:
                q *= model.likelihood(difficulty[part], labels[part])
                q /= np.maximum(q.sum(axis=1, keepdims=True), 1e-300)
            total += sums_by(bins[part], q, BINS)
            counts += sums_by(labels[part], q, n_classes)
            np.add.at(right, (bins[part], labels[part]), q[np.arange(len(q)), labels[part]])
        before = model
        a, b = fit_rates(total, np.maximum(total - right, 0))
        model = NoiseModel(a, b, fit_flip_probs(counts.T))
        if before is not None and abs(_logistic(a) - _logistic(before.a)).max() + abs(b - before.b) < 1e-4:
            break
    assert model is not None
    return model


def fit_rates(total: Floats, wrong: Floats) -> tuple[Floats, float]:
    """Return log-odds a [K] and slope b of the error rate: a logistic regression by Newton's method.

    total, wrong [bins, K]: expected counts of rows and of wrong labels. Priors: a_j around the mean of all classes
    (which has half a wrong label added to one row), b around zero.
    """
    x = CENTERS[:, None]
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
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    overall = wrong.sum(axis=0) + wrong.sum() / n_classes**2 + 1.0 / n_classes
    rows = wrong.sum(axis=1, keepdims=True)

    def prior(some: Integers) -> Floats:
        """The prior of some true classes [m, K]."""
        out: Floats = np.tile(overall, (len(some), 1))
        out[np.arange(len(some)), some] = 0
        out /= out.sum(axis=1, keepdims=True)
        return out

    every = np.arange(n_classes)
    some = subsample(every, n_classes, max(1, PRIOR_CELLS // n_classes))  # to fit one number
    here, of_some = wrong[some], prior(some)
    observed = here > 0
    likelihoods = []
    for concentration in CONCENTRATIONS:
        one_less = (here - 1 + concentration * of_some) / np.maximum(rows[some] - 1 + concentration, 1e-12)
        likelihoods.append((here[observed] * np.log(np.maximum(one_less[observed], 1e-12))).sum())
    best = CONCENTRATIONS[int(np.argmax(likelihoods))]
    for part in parts(n_classes, n_classes):
        wrong[part] = (wrong[part] + best * prior(every[part])) / (rows[part] + best)
    return wrong


def _logistic(x: Floats) -> Floats:
    out: Floats = 1 / (1 + np.exp(-np.clip(x, -30, 30)))
    return out


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
    for _ in range(RATE_STEPS):
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
    for _ in range(RATE_STEPS):
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
    ends = np.array([min(estimates.values()), max(estimates.values())])
    errors = 2 * np.sqrt(np.maximum(ends * (1 - ends), 1 / n) / n)
    return max(0.0, float(ends[0] - errors[0])), min(1.0, float(ends[1] + errors[1] + SLACK))
