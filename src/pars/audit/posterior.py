"""The posterior over true classes of every row, given the classifier's probabilities and the given label.

1. Calibrate the probabilities to the given labels (temperature scaling) and make classes comparable: divide by the
   mean self-confidence of each class (`class_thresholds`). The largest is the prediction.
2. Rows that reach the threshold of some class are *confident*: their true class is nearly certain (τ = ¼). Fit the
   noise model (`noise_model`) to them: error rates by class and difficulty, and flip probabilities.
3. Calibrated probabilities predict *given* labels: remove the noise from them (`NoiseModel.denoise`).
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
    softmax,
    subsample,
    temperature_for_confidence,
)
from pars.audit.noise_model import NoiseModel, fit_noise_model

CELLS = 2**22  # probabilities in memory at a time
FEWEST_CONFIDENT = 5  # with fewer confident rows, the noise model is fitted to all
CONFIDENT_TAU = 0.25  # of the clean probabilities of confident rows; 0.15 to 0.25 are nearly the same (docs/audit.md)
HIGHEST_ACCURACY = 0.999


@dataclass(frozen=True, eq=False)
class Posterior:
    """The fitted posterior of n rows; a label of -1 means unlabeled."""

    labels: Integers
    calibrated: Floats  # [n, K] log-probabilities of given labels
    predicted: Integers  # [n] class with the largest comparable probability
    margin: Floats  # [n] comparable log-probability of the label minus that of the best other class; nan = unlabeled
    difficulty: Floats  # [n] 0..1: rank of the prediction margin within the predicted class, 1 = smallest margin
    confident: npt.NDArray[np.bool_]  # [n] reaches the threshold of some class
    noise: NoiseModel
    tau: float

    def clean(self, rows: slice | Integers) -> Floats:
        """Return g: class probabilities of some rows without their labels."""
        return softmax(self.noise.denoise(self.calibrated[rows], self.difficulty[rows]), self.tau)

    def probabilities(self, rows: slice) -> Floats:
        """Return q: the posterior of some rows given their labels; g for unlabeled rows."""
        q = self.clean(rows)
        labeled = self.labels[rows] >= 0
        q[labeled] *= self.noise.likelihood(self.difficulty[rows][labeled], self.labels[rows][labeled])
        q /= q.sum(axis=1, keepdims=True)
        return q


def fit_posterior(log_p: Floats, labels: Integers) -> Posterior:
    """Return the posterior fitted to log-probabilities [n, K] and given labels [n] (see the module docstring)."""
    n_classes = log_p.shape[1]
    calibrated = calibrate(log_p, labels)
    comparable = calibrated - np.log(class_thresholds(calibrated, labels))
    predicted = comparable.argmax(axis=1)
    confident = comparable.max(axis=1) >= 0
    difficulty = rank_within(prediction_margin(comparable), predicted)
    fitted = confident & (labels >= 0)
    if fitted.sum() < FEWEST_CONFIDENT:
        fitted = labels >= 0
    some = subsample(np.flatnonzero(fitted), n_classes, max(FITTED_ROWS, CELLS // n_classes))
    noise = fit_noise_model(softmax(comparable[some], CONFIDENT_TAU), labels[some], difficulty[some])
    tau = clean_temperature(calibrated, labels, difficulty, noise)
    margin = label_margin(comparable, labels)
    return Posterior(labels, calibrated, predicted, margin, difficulty, confident, noise, tau)


def clean_temperature(calibrated: Floats, labels: Integers, difficulty: Floats, noise: NoiseModel) -> float:
    """Return the temperature of the clean probabilities g for a given noise model: the mean of two estimates.

    The maximum-likelihood τ is too high where annotators and the network make the same errors, which it counts as
    correct labels. The τ that makes g as confident as the network is accurate (`estimated_accuracy`) is too low for a
    weak network, whose errors on confident rows were counted as noise. Their geometric mean is used.
    """
    some = subsample(np.flatnonzero(labels >= 0), calibrated.shape[1])
    logits = noise.denoise(calibrated[some], difficulty[some])
    likelihood = noise.likelihood(difficulty[some], labels[some])

    def value(tau: float) -> float:
        return float(np.log((softmax(logits, tau) * likelihood).sum(axis=1) + 1e-300).mean())

    likeliest = best_temperature(value, low=0.02, high=1.0)
    accuracy = estimated_accuracy(logits, labels[some], difficulty[some], noise)
    matched = temperature_for_confidence(logits, accuracy)
    return float(np.sqrt(likeliest * matched))


def estimated_accuracy(logits: Floats, labels: Integers, difficulty: Floats, noise: NoiseModel) -> float:
    """Return the accuracy of predictions, estimated from their agreement with noisy labels.

    agreement = accuracy·P(label correct) + (1 - accuracy)·P(label wrong, and equal to the prediction by chance)
    Shapes: logits [n, K], labels [n], difficulty [n].
    """
    rows, predicted = np.arange(len(labels)), logits.argmax(axis=1)
    rates = noise.rates(difficulty)
    others = softmax(logits, 1.0)
    others[rows, predicted] = 0
    others /= np.maximum(others.sum(axis=1, keepdims=True), 1e-300)
    by_chance = float((others * rates * noise.flip_probs[:, predicted].T).sum(axis=1).mean())
    correct = float((1 - rates[rows, predicted]).mean())
    agreement = float((predicted == labels).mean())
    lowest: float = 1 / logits.shape[1]
    if correct - by_chance < 0.01:  # the labels carry no information
        return lowest
    return float(np.clip((agreement - by_chance) / (correct - by_chance), lowest, HIGHEST_ACCURACY))


def prediction_margin(logits: Floats) -> Floats:
    """Return the difference [n] between the largest and the second largest logit of each row."""
    top = np.partition(logits, logits.shape[1] - 2, axis=1)[:, -2:]
    out: Floats = top[:, 1] - top[:, 0]
    return out


def label_margin(logits: Floats, labels: Integers) -> Floats:
    """Return the logit of the label minus that of the best other class [n]; nan for unlabeled rows."""
    rows, own = np.arange(len(labels)), np.maximum(labels, 0)
    others = logits.copy()
    others[rows, own] = -np.inf
    out: Floats = np.where(labels >= 0, logits[rows, own] - others.max(axis=1), np.nan)
    return out


def rank_within(values: Floats, groups: Integers) -> Floats:
    """Return the rank of each value within its group, from 0 (largest) to 1 (smallest).

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
