"""Estimate the noise rate, and recalibrate the audit, from a sample of labels checked by people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pars import seeds
from pars.audit.calibration import Floats, Integers
from pars.errors import UserError

STRATA = 10
FEWEST = 5  # rows of a stratum, if it has as many: its variance is estimated from them
LOWEST_RATE = 0.02  # noise rate assumed for a stratum at least, in its variance
PRIOR_VARIANCE = 4.0  # of slope and offset of the calibration, around the identity
NORMAL_95 = 1.96


@dataclass(frozen=True, eq=False)
class VerificationSample:
    """Rows to check by hand: decide for each of `rows` whether its given label is correct, then call `result`.

    >>> sample = draw_sample(np.linspace(0.01, 0.99, 99), 20, seed=0)
    >>> len(sample), len(sample.result([True] * 10 + [False] * 10).label_right_prob)
    (20, 99)
    """

    rows: Integers  # [m] row numbers, in random order
    strata: Integers  # [m] stratum of each of them
    sizes: Integers  # [strata] number of labeled rows
    label_right_prob: Floats  # [n] of all rows, before the calibration; nan = unlabeled

    def __len__(self) -> int:
        return len(self.rows)

    def result(self, correct: npt.ArrayLike) -> VerificationResult:
        """Return the estimates from the answers [m], True where the given label is correct, in the order of `rows`."""
        answers = np.asarray(correct)
        if answers.shape != self.rows.shape:
            raise UserError(
                f"answers have shape {list(answers.shape)}, expected [{len(self.rows)}]: one per row, in order"
            )
        if not np.isin(answers, (0, 1)).all():
            row = int(np.flatnonzero(~np.isin(answers, (0, 1)))[0])
            raise UserError(f"answer {row} is {answers[row]}, expected true (the label is correct) or false")
        wrong = 1.0 - answers.astype(np.float64)
        rate, variance, weights = 0.0, 0.0, np.zeros(len(self.rows))
        for stratum, size in enumerate(self.sizes):
            here = self.strata == stratum
            if not (m := int(here.sum())):
                continue
            share, error = size / self.sizes.sum(), float(wrong[here].mean())
            rate += share * error
            # One row with the audit's own estimate is added: a stratum without a wrong label still has a variance.
            expected = max(LOWEST_RATE, 1 - float(self.label_right_prob[self.rows[here]].mean()))
            smoothed = (m * error + expected) / (m + 1)
            # Finite population correction: nothing is uncertain in a stratum that was checked completely.
            unchecked = 1 - m / size
            variance += share**2 * smoothed * (1 - smoothed) / max(1, m - 1) * unchecked
            weights[here] = size / m
        half = NORMAL_95 * float(np.sqrt(variance))
        slope, offset = platt(log_odds(self.label_right_prob[self.rows]), answers.astype(float), weights)
        calibrated = 1 / (1 + np.exp(-(slope * log_odds(self.label_right_prob) + offset)))
        return VerificationResult(rate, max(0.0, rate - half), min(1.0, rate + half), slope, offset, calibrated)


@dataclass(frozen=True, eq=False)
class VerificationResult:
    """The noise rate with a 95 % confidence interval, and the recalibrated label_right_prob [n] of all rows.

    Calibration: log-odds times slope plus offset.
    """

    noise_rate: float
    noise_rate_low: float
    noise_rate_high: float
    slope: float
    offset: float
    label_right_prob: Floats


def draw_sample(label_right_prob: Floats, n: int, seed: int) -> VerificationSample:
    """Return n labeled rows, stratified by label_right_prob [n], with Neyman allocation: more where it is uncertain."""
    labeled = np.flatnonzero(~np.isnan(label_right_prob))
    if n < 2:
        raise UserError(f"a sample of {n} rows, expected at least 2")
    n = min(n, len(labeled))
    order = labeled[np.argsort(label_right_prob[labeled], kind="stable")]
    groups = np.array_split(order, max(1, min(STRATA, n // FEWEST)))
    deviations = [
        len(g) * float(np.sqrt(p * (1 - p)) + 0.02) for g, p in ((g, label_right_prob[g].mean()) for g in groups)
    ]
    counts = allocate(np.array(deviations), np.array([len(group) for group in groups]), n)
    rng = seeds.generator(seed, "audit/verify")
    chosen = [rng.permutation(group)[:count] for group, count in zip(groups, counts, strict=True)]
    strata = np.repeat(np.arange(len(groups)), counts)
    mixed = rng.permutation(len(strata))  # the order must not give the answers away
    sizes = np.array([len(group) for group in groups])
    return VerificationSample(np.concatenate(chosen)[mixed], strata[mixed], sizes, label_right_prob)


def allocate(weights: Floats, sizes: npt.NDArray[Any], n: int) -> Integers:
    """Return sample sizes that sum to n, proportional to the weights, each at least a few and at most `sizes`.

    >>> allocate(np.array([1.0, 3.0, 0.0]), np.array([50, 6, 50]), 20).tolist()
    [9, 6, 5]
    """
    counts = np.minimum(min(FEWEST, n // len(sizes)), sizes)
    while (left := n - int(counts.sum())) > 0:
        open_ = np.where(counts < sizes, weights + 1e-9, 0)
        # One more row for the stratum that lacks most of its share.
        lacking = np.where(counts < sizes, open_ / open_.sum() * (left + counts.sum()) - counts, -np.inf)
        counts[int(np.argmax(lacking))] += 1
    out: Integers = counts.astype(np.int64)
    return out


def platt(x: Floats, right: Floats, weights: Floats) -> tuple[float, float]:
    """Return slope and offset of a weighted logistic regression with a Gaussian prior around (1, 0).

    Platt scaling, fitted by Newton's method. Shapes: [m] each.
    """
    weights = weights * len(weights) / weights.sum()
    theta = np.array([1.0, 0.0])
    design = np.stack([x, np.ones_like(x)], axis=1)
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(design @ theta, -30, 30)))
        gradient = design.T @ (weights * (right - p)) - (theta - [1.0, 0.0]) / PRIOR_VARIANCE
        hessian = (design * (weights * p * (1 - p))[:, None]).T @ design + np.eye(2) / PRIOR_VARIANCE
        step = np.linalg.solve(hessian, gradient)
        theta = theta + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-8:
            break
    return float(theta[0]), float(theta[1])


def log_odds(p: Floats) -> Floats:
    """Return log(p / (1 - p)), with p clipped to finite values."""
    inside = np.clip(p, 1e-6, 1 - 1e-6)
    out: Floats = np.log(inside) - np.log1p(-inside)
    return out
