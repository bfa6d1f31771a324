"""The posterior over true classes of every row, given the classifier's probabilities and the given label.

1. Calibrate the probabilities to the given labels (temperature scaling) and make classes comparable: divide by the
   mean self-confidence of each class (`class_thresholds`). The largest is the prediction.
2. Rows that reach the threshold of some class are *confident*: their true class is nearly certain (τ = ¼). Fit the
   noise model (`noise_model`) to them: how often labels are wrong, by class and difficulty, and what they become.
3. Calibrated probabilities predict *given* labels: remove the noise from them (`NoiseModel.without`).
4. For the remaining rows, use the noise rate the model assigns to rows of that difficulty; any further disagreement
   is an error of the network. That gives the temperature τ of the clean probabilities g (step 3 to the power 1/τ).
5. Bayes' rule: q_i[j] ∝ g_i[j]·P(given label of i | j, difficulty of i).

The order matters. Fitted together, soft g without any noise explain noisy labels as well as sharp g with noise do:
likelihood alone cannot tell an uncertain network from uncertain labels. The confident rows break the tie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pars.audit.calibration import (
    FITTED_ROWS,
    Floats,
    Integers,
    best_temperature,
    calibrate,
    class_thresholds,
    confidence_matched,
    fitted_rows,
    sharpened,
    spread,
)
from pars.audit.noise_model import NoiseModel, fit

CELLS = 2**22  # probabilities held at a time
FEWEST_SURE = 5  # rows; with fewer all count
SURE_TAU = 0.25  # sharpness among sure rows; anything from 0.15 to 0.25 gives nearly the same (docs/audit.md)
HIGHEST_ACCURACY = 0.999


@dataclass(frozen=True, eq=False)
class Posterior:
    """The fitted posterior of n rows; a label of -1 means unlabeled."""

    labels: Integers
    calibrated: Floats  # [n, K] log-probabilities of given labels
    predicted: Integers  # [n] largest comparable probability
    margin: Floats  # [n] of the label: comparable log-probability above the best other class's; nan = no label
    difficulty: Floats  # [n] 0..1: rank of the prediction's lead among rows predicted so, 1 = the smallest lead
    sure: npt.NDArray[np.bool_]  # [n] reaches what is usual for some class
    noise: NoiseModel
    tau: float

    def clean(self, rows: slice | Integers) -> Floats:
        """g: class probabilities of some rows before the label is considered."""
        return sharpened(self.noise.without(self.calibrated[rows], self.difficulty[rows]), self.tau)

    def probabilities(self, rows: slice) -> Floats:
        """q: class probabilities of some rows, the label considered; of rows without a label g."""
        q = self.clean(rows)
        labeled = self.labels[rows] >= 0
        q[labeled] *= self.noise.likelihood(self.difficulty[rows][labeled], self.labels[rows][labeled])
        q /= q.sum(axis=1, keepdims=True)
        return q

    def parts(self) -> list[slice]:
        """Slices that cover all rows, small enough for their probabilities to fit in memory."""
        n, n_classes = self.calibrated.shape
        size = max(1, CELLS // n_classes)
        return [slice(start, start + size) for start in range(0, n, size)]


def fit_posterior(log_p: Floats, labels: Integers) -> Posterior:
    """Return the posterior fitted to log-probabilities [n, K] and given labels [n] (see the module docstring)."""
    n_classes = log_p.shape[1]
    calibrated = calibrate(log_p, labels)
    comparable = calibrated - np.log(class_thresholds(calibrated, labels))
    predicted = comparable.argmax(axis=1)
    sure = comparable.max(axis=1) >= 0
    difficulty = rank_within(lead(comparable), predicted)
    fitted = sure & (labels >= 0)
    if fitted.sum() < FEWEST_SURE:
        fitted = labels >= 0
    some = spread(np.flatnonzero(fitted), max(FITTED_ROWS, CELLS // n_classes))
    noise = fit(sharpened(comparable[some], SURE_TAU), labels[some], difficulty[some])
    tau = sharpness(calibrated, labels, difficulty, noise)
    return Posterior(labels, calibrated, predicted, label_margin(comparable, labels), difficulty, sure, noise, tau)


def sharpness(calibrated: Floats, labels: Integers, difficulty: Floats, noise: NoiseModel) -> float:
    """The temperature of g, the noise being given: the geometric mean of two estimates.

    That which makes the given labels most likely is too soft where people err as the network does: it takes their
    shared errors for right answers. That by which g is as sure as the network is accurate (`accuracy`) is too sharp for
    a weak network, whose errors among sure rows were counted as noise.
    """
    some = fitted_rows(np.flatnonzero(labels >= 0), calibrated.shape[1])
    of_some = noise.without(calibrated[some], difficulty[some])
    likelihood = noise.likelihood(difficulty[some], labels[some])

    def value(tau: float) -> float:
        return float(np.log((sharpened(of_some, tau) * likelihood).sum(axis=1) + 1e-300).mean())

    likeliest = best_temperature(value, low=0.02, high=1.0)
    matched = confidence_matched(of_some, accuracy(of_some, labels[some], difficulty[some], noise))
    return float(np.sqrt(likeliest * matched))


def accuracy(logits: Floats, labels: Integers, difficulty: Floats, noise: NoiseModel) -> float:
    """How often predictions are right, by how often they agree with labels that are as noisy as the model says.

    agreement = accuracy·P(label right) + (1 - accuracy)·P(label wrong and, as it happens, what was predicted)
    """
    rows, predicted = np.arange(len(labels)), logits.argmax(axis=1)
    rates = noise.rates(difficulty)
    others = sharpened(logits, 1.0)
    others[rows, predicted] = 0
    others /= np.maximum(others.sum(axis=1, keepdims=True), 1e-300)
    by_chance = float((others * rates * noise.turns_into[:, predicted].T).sum(axis=1).mean())
    kept = float((1 - rates[rows, predicted]).mean())
    agreement = float((predicted == labels).mean())
    lowest: float = 1 / logits.shape[1]
    if kept - by_chance < 0.01:  # labels that say nothing
        return lowest
    return float(np.clip((agreement - by_chance) / (kept - by_chance), lowest, HIGHEST_ACCURACY))


def lead(logits: Floats) -> Floats:
    """By how much the largest of each row is above the second."""
    top = np.partition(logits, logits.shape[1] - 2, axis=1)[:, -2:]
    out: Floats = top[:, 1] - top[:, 0]
    return out


def label_margin(logits: Floats, labels: Integers) -> Floats:
    """The label's logit above the best other class; nan for rows without a label."""
    rows, own = np.arange(len(labels)), np.maximum(labels, 0)
    others = logits.copy()
    others[rows, own] = -np.inf
    out: Floats = np.where(labels >= 0, logits[rows, own] - others.max(axis=1), np.nan)
    return out


def rank_within(values: Floats, groups: Integers) -> Floats:
    """Rank of each value within its group as a share between 0 (the largest) and 1 (the smallest).

    >>> rank_within(np.array([3.0, 1.0, 2.0, 5.0]), np.array([0, 0, 1, 0])).round(2)
    array([0.5 , 0.83, 0.5 , 0.17])
    """
    order = np.lexsort((-values, groups))
    sizes = np.bincount(groups)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    out = np.empty(len(values))
    of_sorted = groups[order]
    out[order] = (np.arange(len(values)) - starts[of_sorted] + 0.5) / sizes[of_sorted]
    return out
