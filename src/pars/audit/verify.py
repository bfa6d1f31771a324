"""A few labels checked by people: a noise rate with an interval, and probabilities calibrated on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pars import seeds
from pars.audit.calibration import Floats, Integers
from pars.errors import UserError

STRATA = 10
FEWEST = 5  # rows of a stratum, where there are as many: fewer say nothing of their variance
LEAST_UNCERTAIN = 0.02  # share of wrong labels below which no stratum is taken to be
PRIOR_VARIANCE = 4.0  # of the two parameters of the calibration, around "as it is"
NORMAL_95 = 1.96


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows to check by hand. Ask for each whether its given label is right, then call `result`."""

    rows: Integers  # [m] row numbers, in random order
    strata: Integers  # [m] of the rows
    sizes: Integers  # [strata] labeled rows of each
    label_right_prob: Floats  # [n] of all rows, as they are now; nan = no label

    def __len__(self) -> int:
        return len(self.rows)

    def result(self, right: npt.ArrayLike) -> Checked:
        """What the verdicts say [m]: True where the given label is right."""
        verdicts = np.asarray(right)
        if verdicts.shape != self.rows.shape:
            raise UserError(f"{list(verdicts.shape)} verdicts, expected [{len(self.rows)}]: one for each row, in order")
        if not np.isin(verdicts, (0, 1)).all():
            raise UserError("verdicts have to be true (the label is right) or false")
        wrong = 1.0 - verdicts.astype(np.float64)
        rate, variance, weights = 0.0, 0.0, np.zeros(len(self.rows))
        for stratum, size in enumerate(self.sizes):
            here = self.strata == stratum
            if not (m := int(here.sum())):
                continue
            share, error = size / self.sizes.sum(), float(wrong[here].mean())
            rate += share * error
            # One more row, as the audit has it: a stratum without a wrong label is not known to be free of them.
            expected = max(LEAST_UNCERTAIN, 1 - float(self.label_right_prob[self.rows[here]].mean()))
            smoothed = (m * error + expected) / (m + 1)
            left = 1 - m / size  # of a stratum that was checked wholly nothing is uncertain
            variance += share**2 * smoothed * (1 - smoothed) / max(1, m - 1) * left
            weights[here] = size / m
        half = NORMAL_95 * float(np.sqrt(variance))
        slope, offset = platt(log_odds(self.label_right_prob[self.rows]), verdicts.astype(float), weights)
        calibrated = 1 / (1 + np.exp(-(slope * log_odds(self.label_right_prob) + offset)))
        return Checked(rate, max(0.0, rate - half), min(1.0, rate + half), slope, offset, calibrated)


@dataclass(frozen=True, eq=False)
class Checked:
    """The noise rate with a 95 % interval, and label_right_prob [n] recalibrated: log-odds times slope plus offset."""

    noise_rate: float
    noise_rate_low: float
    noise_rate_high: float
    slope: float
    offset: float
    label_right_prob: Floats


def draw_sample(label_right_prob: Floats, n: int, seed: int) -> Sample:
    """Rows stratified by the probability that their label is right, most from where it is least certain (Neyman)."""
    labeled = np.flatnonzero(~np.isnan(label_right_prob))
    if n < 2:
        raise UserError(f"a sample of {n} rows, expected at least 2")
    n = min(n, len(labeled))
    order = labeled[np.argsort(label_right_prob[labeled], kind="stable")]
    groups = np.array_split(order, max(1, min(STRATA, n // FEWEST)))
    spread = [len(g) * float(np.sqrt(p * (1 - p)) + 0.02) for g, p in ((g, label_right_prob[g].mean()) for g in groups)]
    counts = allotted(np.array(spread), np.array([len(group) for group in groups]), n)
    rng = seeds.generator(seed, "audit/verify")
    chosen = [rng.permutation(group)[:count] for group, count in zip(groups, counts, strict=True)]
    strata = np.repeat(np.arange(len(groups)), counts)
    mixed = rng.permutation(len(strata))  # who checks must not guess from the order
    sizes = np.array([len(group) for group in groups])
    return Sample(np.concatenate(chosen)[mixed], strata[mixed], sizes, label_right_prob)


def allotted(weights: Floats, sizes: npt.NDArray[Any], n: int) -> Integers:
    """Whole numbers that sum to n, in proportion to the weights, a few each at least and never more than there are.

    >>> allotted(np.array([1.0, 3.0, 0.0]), np.array([50, 6, 50]), 20).tolist()
    [9, 6, 5]
    """
    counts = np.minimum(min(FEWEST, n // len(sizes)), sizes)
    while (left := n - int(counts.sum())) > 0:
        open_ = np.where(counts < sizes, weights + 1e-9, 0)
        # The one that lacks most of its share.
        lacking = np.where(counts < sizes, open_ / open_.sum() * (left + counts.sum()) - counts, -np.inf)
        counts[int(np.argmax(lacking))] += 1
    out: Integers = counts.astype(np.int64)
    return out


def platt(x: Floats, right: Floats, weights: Floats) -> tuple[float, float]:
    """Slope and offset of a weighted logistic regression, around (1, 0) by a prior, by Newton's method."""
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
    inside = np.clip(p, 1e-6, 1 - 1e-6)
    out: Floats = np.log(inside) - np.log1p(-inside)
    return out
