"""Temperatures and class thresholds: calibrate probabilities and make classes comparable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

FLOOR = 1e-6  # of a probability; smaller ones carry no information, and are zero in float16
FITTED_ROWS = 20_000  # enough for a temperature: more rows would not change its second digit
FITTED_CELLS = 2**22  # rows times classes: fewer rows where there are thousands of classes
CELLS = 2**19  # probabilities in memory at a time: 4 MB, several times
PRIOR_ROWS = 5.0  # strength of the prior that pulls the mean of a class to that of all classes
GOLDEN = (5**0.5 - 1) / 2


def log_probabilities(probabilities: npt.NDArray[np.floating]) -> Floats:
    """Return log-probabilities [n, K] of normalized rows, with zeros replaced by a small floor."""
    out: Floats = probabilities.astype(np.float64)  # the only copy: there may be billions of them
    np.maximum(out, FLOOR, out=out)
    out /= out.sum(axis=1, keepdims=True)
    return np.log(out, out=out)


def softmax(logits: Floats, tau: float, out: Floats | None = None) -> Floats:
    """Return softmax(logits / τ) of each row [n, K]; `out` may be `logits`, which is then overwritten.

    >>> softmax(np.log(np.array([[0.6, 0.4]])), 0.5).round(3)     # squares: 0.36 to 0.16
    array([[0.692, 0.308]])
    """
    out = np.divide(logits, tau, out=out)
    out -= out.max(axis=1, keepdims=True)
    np.exp(out, out=out)
    out /= out.sum(axis=1, keepdims=True)
    return out


def calibrate(log_p: Floats, labels: Integers) -> Floats:
    """Return log-probabilities [n, K] at the temperature that maximizes the likelihood of the given labels [n].

    This is temperature scaling; a label of -1 means unlabeled.
    """
    some = subsample(np.flatnonzero(labels >= 0), log_p.shape[1])
    scaled: Floats = log_p / likeliest_temperature(log_p[some], labels[some])
    for part in parts(len(scaled), scaled.shape[1]):
        scaled[part] -= log_sum_exp(scaled[part])[:, None]
    return scaled


def likeliest_temperature(logits: Floats, labels: Integers) -> float:
    """Return the temperature of logits [m, K] that maximizes the likelihood of the labels [m]."""
    rows = np.arange(len(labels))
    return best_temperature(
        lambda tau: float((logits[rows, labels] / tau - log_sum_exp(logits / tau)).mean()), low=0.05, high=20.0
    )


class Calibrated:
    """`calibrate` of the logarithms of probabilities [n, K], computed for the rows that are read.

    There may be billions of probabilities: no copy of all of them is made.
    """

    def __init__(self, probabilities: npt.NDArray[np.floating], labels: Integers) -> None:
        self._probabilities = probabilities
        self.shape = probabilities.shape[0], probabilities.shape[1]  # rows and classes
        some = subsample(np.flatnonzero(labels >= 0), probabilities.shape[1])
        self._tau = likeliest_temperature(log_probabilities(probabilities[some]), labels[some])

    def __getitem__(self, rows: slice | Integers) -> Floats:
        """The log-probabilities [m, K] of some rows: a new array."""
        out = log_probabilities(self._probabilities[rows])
        out /= self._tau
        out -= log_sum_exp(out)[:, None]
        return out

    def of_class(self, classes: Integers) -> Floats:
        """The log-probability [n] of one class of each row."""
        values = [self[part][np.arange(len(own := classes[part])), own] for part in parts(*self.shape)]
        return np.concatenate(values)

    def best(self) -> Integers:
        """The most probable class [n] of each row."""
        return np.concatenate([self[part].argmax(axis=1) for part in parts(*self.shape)])


def parts(n: int, n_classes: int, least: int = 1) -> list[slice]:
    """Cut n rows into parts, of `least` rows or more, whose probabilities fit in memory several times."""
    size = max(least, CELLS // n_classes)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def best_temperature(value: Callable[[float], float], *, low: float, high: float, steps: int = 24) -> float:
    """Return the τ that maximizes `value`, by golden-section search over log τ.

    >>> round(best_temperature(lambda tau: -abs(tau - 0.3), low=0.01, high=1.0), 3)
    0.3
    """
    a, b = np.log(low), np.log(high)
    c, d = b - GOLDEN * (b - a), a + GOLDEN * (b - a)
    at_c, at_d = value(float(np.exp(c))), value(float(np.exp(d)))
    for _ in range(steps):
        if at_c > at_d:
            b, d, at_d = d, c, at_c
            c = b - GOLDEN * (b - a)
            at_c = value(float(np.exp(c)))
        else:
            a, c, at_c = c, d, at_d
            d = a + GOLDEN * (b - a)
            at_d = value(float(np.exp(d)))
    return float(np.exp((a + b) / 2))


def class_thresholds(own_log_p: Floats, labels: Integers, n_classes: int) -> Floats:
    """Return the mean self-confidence [K] of the rows labeled with each class, smoothed for small classes.

    These are confident learning's thresholds (Northcutt et al. 2021). The self-confidence of a class drops when its
    labels are often wrong, so a row is unusual only in comparison with its class.
    Shapes: own_log_p [m], the log-probabilities of the labels [m].
    """
    self_confidence = np.exp(own_log_p)
    counts = np.bincount(labels, minlength=n_classes)
    sums = np.bincount(labels, weights=self_confidence, minlength=n_classes)
    out: Floats = (sums + PRIOR_ROWS * self_confidence.mean()) / (counts + PRIOR_ROWS)
    return out


def temperature_for_confidence(logits: Floats, target: float, *, highest: float = 1.0) -> float:
    """Return the τ from 0.02 to `highest` at which the mean confidence (largest probability) is nearest to `target`."""
    some = logits[subsample(np.arange(len(logits)), logits.shape[1])]
    low, high = np.log(0.02), np.log(highest)
    for _ in range(20):
        middle = (low + high) / 2
        if softmax(some, float(np.exp(middle))).max(axis=1).mean() > target:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))


def sums_by(groups: Integers, values: Floats, n_groups: int) -> Floats:
    """Return the sums [G, K] of rows [m, K] by group [m].

    >>> sums_by(np.array([0, 2, 0]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 3)
    array([[6., 8.],
           [0., 0.],
           [3., 4.]])
    """
    from scipy import sparse  # here: `pars audit --help` needs none, and it takes a moment to import

    rows = np.arange(len(groups))
    members = sparse.csr_array((np.ones(len(rows)), (groups, rows)), shape=(n_groups, len(rows)))
    out: Floats = np.asarray(members @ values)
    return out


def log_sum_exp(values: Floats) -> Floats:
    """Return log Σ exp of each row [n, K] -> [n]."""
    top = values.max(axis=1)
    out: Floats = top + np.log(np.exp(values - top[:, None]).sum(axis=1))
    return out


def subsample(rows: Integers, n_classes: int, limit: int | None = None) -> Integers:
    """Return at most `limit` of the rows, evenly spaced; by default enough to fit one number."""
    limit = max(1000, min(FITTED_ROWS, FITTED_CELLS // n_classes)) if limit is None else limit
    return rows if len(rows) <= limit else rows[np.linspace(0, len(rows) - 1, limit).astype(np.int64)]
