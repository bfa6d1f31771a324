"""From probabilities and given labels to the probability of every class for every row, the label considered.

1. Make the probabilities honest about the given labels (one temperature), and comparable between classes: divide by
   what rows labelled with the class usually reach (`usual_confidence`). The largest is the prediction.
2. Rows that reach what is usual for some class are *sure*: their true class is nearly certain (τ = ¼). Fit to them how
   labels go wrong (`noise_model`): how often, by class and difficulty, and what they turn into.
3. Honest probabilities are of given labels: take the noise out of them (`NoiseModel.without`).
4. Other rows are mislabelled as the model says that rows so hard are; what else disagrees with the network is the
   network's fault. That gives the sharpness τ of the clean probabilities g, those of step 3 to the power 1/τ.
5. Bayes: q_i[j] ∝ g_i[j]·P(given label of i | j, difficulty of i).

The order matters. Fitted together, soft g without any noise explain noisy labels as well as sharp g with noise do:
likelihood alone cannot tell an uncertain network from uncertain labels. That sure rows are sure breaks the tie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pars.audit.noise_model import NoiseModel, fit
from pars.audit.posterior import (
    FITTED_ROWS,
    Floats,
    Integers,
    best_temperature,
    confidence_matched,
    fitted_rows,
    made_honest,
    sharpened,
    spread,
    usual_confidence,
)

CELLS = 2**22  # probabilities held at a time
FEWEST_SURE = 5  # rows; with fewer all count
SURE_TAU = 0.25  # sharpness among sure rows; anything from 0.15 to 0.25 gives nearly the same (docs/audit.md)
HIGHEST_ACCURACY = 0.999


@dataclass(frozen=True, eq=False)
class Belief:
    """What is believed about n rows; labels of -1 are none."""

    labels: Integers
    honest: Floats  # [n, K] log-probabilities of given labels
    predicted: Integers  # [n] largest comparable probability
    margin: Floats  # [n] of the label: comparable log-probability above the best other class's; nan = no label
    difficulty: Floats  # [n] 0..1: rank of the prediction's lead among rows predicted so, 1 = the smallest lead
    sure: npt.NDArray[np.bool_]  # [n] reaches what is usual for some class
    noise: NoiseModel
    tau: float

    def clean(self, rows: slice | Integers) -> Floats:
        """g: class probabilities of some rows before the label is considered."""
        return sharpened(self.noise.without(self.honest[rows], self.difficulty[rows]), self.tau)

    def posterior(self, rows: slice) -> Floats:
        """q: class probabilities of some rows, the label considered; of rows without a label g."""
        q = self.clean(rows)
        labelled = self.labels[rows] >= 0
        q[labelled] *= self.noise.likelihood(self.difficulty[rows][labelled], self.labels[rows][labelled])
        q /= q.sum(axis=1, keepdims=True)
        return q

    def parts(self) -> list[slice]:
        """All rows, so many at a time that their probabilities fit."""
        n, n_classes = self.honest.shape
        size = max(1, CELLS // n_classes)
        return [slice(start, start + size) for start in range(0, n, size)]


def believe(log_p: Floats, labels: Integers) -> Belief:
    """See the module. Shapes: [n, K], [n]."""
    n_classes = log_p.shape[1]
    honest = made_honest(log_p, labels)
    comparable = honest - np.log(usual_confidence(honest, labels))
    predicted = comparable.argmax(axis=1)
    sure = comparable.max(axis=1) >= 0
    difficulty = rank_within(lead(comparable), predicted)
    fitted = sure & (labels >= 0)
    if fitted.sum() < FEWEST_SURE:
        fitted = labels >= 0
    some = spread(np.flatnonzero(fitted), max(FITTED_ROWS, CELLS // n_classes))
    noise = fit(sharpened(comparable[some], SURE_TAU), labels[some], difficulty[some])
    tau = sharpness(honest, labels, difficulty, noise)
    return Belief(labels, honest, predicted, label_margin(comparable, labels), difficulty, sure, noise, tau)


def sharpness(honest: Floats, labels: Integers, difficulty: Floats, noise: NoiseModel) -> float:
    """The temperature of g, the noise being given: the geometric mean of two estimates.

    That which makes the given labels most likely is too soft where people err as the network does: it takes their
    shared errors for right answers. That by which g is as sure as the network is accurate (`accuracy`) is too sharp for
    a weak network, whose errors among sure rows were counted as noise.
    """
    some = fitted_rows(np.flatnonzero(labels >= 0), honest.shape[1])
    of_some = noise.without(honest[some], difficulty[some])
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
