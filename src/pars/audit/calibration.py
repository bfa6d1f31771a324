"""Probabilities made calibrated, comparable between classes, and as sharp as the given labels bear out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

FLOOR = 1e-6  # below it a probability says "no" and nothing more; float16 has zeros there
FITTED_ROWS = 20_000  # one number is fitted: more rows would not change its second digit
FITTED_CELLS = 2**22  # and fewer where there are thousands of classes
PRIOR_ROWS = 5.0  # a class's own mean counts against that of all classes as its rows against so many
GOLDEN = (5**0.5 - 1) / 2


def log_probabilities(probabilities: npt.NDArray[np.floating]) -> Floats:
    """Logarithms [n, K] of rows that sum to one, zeros lifted to a floor."""
    p = np.maximum(probabilities.astype(np.float64), FLOOR)
    out: Floats = np.log(p / p.sum(axis=1, keepdims=True))
    return out


def sharpened(logits: Floats, tau: float) -> Floats:
    """softmax(logits / τ), each row.

    >>> sharpened(np.log(np.array([[0.6, 0.4]])), 0.5).round(3)     # squares: 0.36 to 0.16
    array([[0.692, 0.308]])
    """
    scaled = logits / tau
    scaled -= scaled.max(axis=1, keepdims=True)
    out: Floats = np.exp(scaled)
    out /= out.sum(axis=1, keepdims=True)
    return out


def label_temperature(log_p: Floats, labels: Integers) -> float:
    """The temperature at which the probabilities fit the given labels best: then they are calibrated to these."""
    some = fitted_rows(np.flatnonzero(labels >= 0), log_p.shape[1])
    of_some, own = log_p[some], labels[some]
    rows = np.arange(len(some))
    return best_temperature(
        lambda tau: float((of_some[rows, own] / tau - log_sum_exp(of_some / tau)).mean()), low=0.05, high=20.0
    )


def calibrate(log_p: Floats, labels: Integers) -> Floats:
    """Log-probabilities [n, K] at the temperature that fits the given labels best."""
    out: Floats = log_p / label_temperature(log_p, labels)
    out -= log_sum_exp(out)[:, None]
    return out


def best_temperature(value: Callable[[float], float], *, low: float, high: float, steps: int = 24) -> float:
    """The τ of the largest value by golden-section search over its logarithm.

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


def class_thresholds(log_p: Floats, labels: Integers) -> Floats:
    """The mean probability [K] of a class over the rows labeled so, small classes drawn to the mean of all.

    Confident learning's thresholds (Northcutt et al. 2021). Where labels of a class are often wrong, or taken from
    another one, its rows reach less: what is usual for the class has to be known before a row can be called unusual.
    """
    labeled = np.flatnonzero(labels >= 0)
    own = labels[labeled]
    of_label = np.exp(log_p[labeled, own])
    counts = np.bincount(own, minlength=log_p.shape[1])
    sums = np.bincount(own, weights=of_label, minlength=log_p.shape[1])
    out: Floats = (sums + PRIOR_ROWS * of_label.mean()) / (counts + PRIOR_ROWS)
    return out


def confidence_matched(logits: Floats, target: float) -> float:
    """τ in 0.02 … 1 at which the mean largest probability is nearest to `target`: sharper rows are more confident."""
    some = logits[fitted_rows(np.arange(len(logits)), logits.shape[1])]
    low, high = np.log(0.02), 0.0
    for _ in range(20):
        middle = (low + high) / 2
        if sharpened(some, float(np.exp(middle))).max(axis=1).mean() > target:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))


def sums_by(groups: Integers, values: Floats, n_groups: int) -> Floats:
    """Sums [G, K] of rows [m, K] by their group [m].

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
    top = values.max(axis=1)
    out: Floats = top + np.log(np.exp(values - top[:, None]).sum(axis=1))
    return out


def fitted_rows(rows: Integers, n_classes: int) -> Integers:
    """Some of the rows, evenly spread over them: enough to fit one number."""
    return spread(rows, max(1000, min(FITTED_ROWS, FITTED_CELLS // n_classes)))


def spread(rows: Integers, limit: int) -> Integers:
    """At most `limit` of the rows, evenly spread over them."""
    return rows if len(rows) <= limit else rows[np.linspace(0, len(rows) - 1, limit).astype(np.int64)]
