"""The posterior over true classes of every row, given the classifier's probabilities and the given label.

1. Calibrate the probabilities to the given labels (temperature scaling) and make classes comparable: divide by the
   root of the mean self-confidence of each class (`class_thresholds`). The largest is the prediction.
2. Rows that reach the threshold of some class are *confident*: their true class is nearly certain (τ = ¼). Fit the
   noise model (`noise_model`) to them: error rates by class and difficulty, and flip probabilities. For the level,
   where error rates grow with difficulty, take that noise out of the probabilities of all rows, and fit it again.
3. Calibrated probabilities predict *given* labels: remove the noise from them (`NoiseModel.denoise`).
4. For the remaining rows, use the noise rate the model assigns to rows of that difficulty; any further disagreement
   is an error of the network. That gives the temperature τ of the clean probabilities g (step 3 to the power 1/τ).
5. Bayes' rule: q_i[j] ∝ g_i[j]·P(given label of i | j, difficulty of i).

The order matters. Fitted together, soft g without any noise explain noisy labels as well as sharp g with noise do:
likelihood alone cannot tell an uncertain network from uncertain labels. The confident rows break the tie.

Two things limit what step 2 assumes.

*How many labels are wrong.* Confident rows are certain only if the classes are apart. `overlap` measures that without
labels: where prediction margins are as often near zero as anywhere, classes overlap or the network is weak. The more
they do, the nearer the temperatures of steps 2 and 4 are to those at which g is as confident as a network with such
margins is accurate (`Posterior.accuracies`).

*In which order.* The noise model is fitted to each half of the rows. Where the halves disagree about how to correct
plain self-confidence, the data do not support the correction: `model_weight` shrinks it (`combined_score`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pars.audit.calibration import (
    CELLS,
    FITTED_CELLS,
    FITTED_ROWS,
    Calibrated,
    Floats,
    Integers,
    best_temperature,
    class_thresholds,
    log_probabilities,
    parts,
    softmax,
    subsample,
    temperature_for_confidence,
)
from pars.audit.noise_model import DENSE_CLASSES, NoiseModel, fit_noise_model

FEWEST_CONFIDENT = 5  # with fewer confident rows, the noise model is fitted to all
CONFIDENT_TAU = 0.25  # of the clean probabilities of confident rows; 0.15 to 0.25 are nearly the same (docs/audit.md)
HIGHEST_ACCURACY = 0.999
LOWEST_TAU = 0.05
# The constants below were chosen by leaving out one data set at a time (docs/audit.md, "Small sets and weak models").
THRESHOLD_POWER = 0.5  # of class thresholds: 1 misleads if most labels of a class are wrong
APART, OVERLAPPING = 0.7, 0.85  # overlap up to which confident rows are certain, and from which on they least are
LEAST_SHARPNESS = 0.25
ACCURACY_LOG_ODDS, ACCURACY_SLOPE = 6.84, -7.8  # log-odds of a network's accuracy = 6.84 - 7.8·overlap
ACCURACY_ERROR = 0.5  # standard error of these log-odds
HALVING_GROUPS = 64
MOST_WEIGHT = 0.6  # of the noise model's correction in the ranking


@dataclass(frozen=True, eq=False)
class Posterior:
    """The fitted posterior of n rows; a label of -1 means unlabeled."""

    labels: Integers
    calibrated: Calibrated  # [n, K] log-probabilities of given labels
    predicted: Integers  # [n] class with the largest comparable probability
    margin: Floats  # [n] comparable log-probability of the label minus that of the best other class; nan = unlabeled
    difficulty: Floats  # [n] 0..1: rank of the prediction margin within the predicted class, 1 = smallest margin
    confident: npt.NDArray[np.bool_]  # [n] reaches the threshold of some class
    noise: NoiseModel
    tau: float
    overlap: float  # of the classes, as this network sees them
    flip_weight: float  # 0..1: of the noise model in the choice among the other classes; the rest is the prediction
    accuracies: Floats  # [3] to expect of a network with such an overlap; one standard error less, and more
    model_weight: float  # 0..1: of the noise model in the ranking; the rest is self-confidence
    score: Floats  # [n] low = suspect; nan = unlabeled
    right: Floats  # [n] probability that the label is right, in the order of `score`; nan = unlabeled
    sharp_rate: float  # noise rate if confident rows are certain

    def clean(self, rows: slice | Integers) -> Floats:
        """Return g: class probabilities of some rows without their labels."""
        return softmax(self.noise.denoise(self.calibrated[rows], self.difficulty[rows]), self.tau)

    def given_labels(self, clean: Floats, rows: slice) -> Floats:
        """Return q: the posterior of some rows from their g, given their labels; g for unlabeled rows.

        The probability of the label is `right`; the others share the rest as Bayes' rule has it.
        """
        q = clean.copy()
        own = np.flatnonzero(self.labels[rows] >= 0)
        labels = self.labels[rows][own]
        q[own] *= self.noise.likelihood(self.difficulty[rows][own], labels)
        q[own, labels] = 0
        others = q[own].sum(axis=1, keepdims=True)
        even = (1 - np.eye(q.shape[1])[labels]) / (q.shape[1] - 1) if (others <= 0).any() else 0.0
        q[own] = np.where(others > 0, q[own] / np.maximum(others, 1e-300), even)
        if self.flip_weight < 1:  # flip probabilities that describe the network's errors would mislead suggestions
            at = np.arange(len(own))
            blend = (1 - self.flip_weight) * self.calibrated[rows][own]
            blend += self.flip_weight * np.log(np.maximum(q[own], 1e-300))
            blend[at, labels] = -np.inf
            best, chosen = q[own].argmax(axis=1), blend.argmax(axis=1)
            q[own, best], q[own, chosen] = q[own, chosen], q[own, best]
        right = self.right[rows][own]
        q[own] *= (1 - right)[:, None]
        q[own, labels] = right
        q /= q.sum(axis=1, keepdims=True)
        return q


@dataclass(frozen=True, eq=False)
class _Rows:
    """What the noise model is fitted to: n rows, of which `labels` are -1 where there is none."""

    labels: Integers
    calibrated: Calibrated
    thresholds: Floats  # [K] logarithms
    confident: npt.NDArray[np.bool_]
    difficulty: Floats

    def comparable(self, rows: slice | Integers) -> Floats:
        """Return log-probabilities of some rows less part of the thresholds of the classes."""
        out = self.calibrated[rows]
        out -= THRESHOLD_POWER * self.thresholds
        return out

    def fit(
        self, rows: Integers, sharpness: float, accuracy: float, *, twice: bool = False
    ) -> tuple[NoiseModel, float]:
        """Return the noise model and the temperature of g, fitted to some labeled rows.

        sharpness 1: confident rows are certain. 0: g is as confident as a network of this accuracy is right.
        twice: once more to all rows, the noise taken out. People err most where no row is confident.
        """
        n_classes = self.calibrated.shape[1]
        sure = rows[self.confident[rows]]
        if len(sure) < FEWEST_CONFIDENT:
            sure = rows
        sure = subsample(sure, n_classes, max(FITTED_ROWS, FITTED_CELLS // n_classes))
        tau = CONFIDENT_TAU
        if sharpness < 1:
            some = subsample(rows, n_classes)
            matched = max(temperature_for_confidence(self.comparable(some), accuracy), LOWEST_TAU)
            tau = tau**sharpness * matched ** (1 - sharpness)
        noise = self.fit_noise(sure, lambda part: softmax(self.comparable(part), tau))
        if twice:
            first, every = noise, subsample(rows, n_classes, max(FITTED_ROWS, FITTED_CELLS // n_classes))
            noise = self.fit_noise(
                every, lambda part: softmax(first.denoise(self.calibrated[part], self.difficulty[part]), tau)
            )
        few = subsample(rows, n_classes)
        clean = clean_temperature(self.calibrated[few], self.labels[few], self.difficulty[few], noise)
        if sharpness < 1:
            logits = noise.denoise(self.calibrated[some], self.difficulty[some])
            clean = clean**sharpness * temperature_for_confidence(logits, accuracy, highest=2.0) ** (1 - sharpness)
        return noise, clean

    def fit_noise(self, rows: Integers, clean: Callable[[Integers], Floats]) -> NoiseModel:
        """Return the noise model of some rows. clean: their class probabilities without labels, computed in parts."""
        n_classes = self.calibrated.shape[1]
        many = n_classes > DENSE_CLASSES  # half the memory: with thousands of classes these may be all rows
        probabilities: npt.NDArray[np.floating] = np.empty((len(rows), n_classes), np.float32 if many else np.float64)
        for part in parts(len(rows), n_classes):
            probabilities[part] = clean(rows[part])
        return fit_noise_model(probabilities, self.labels[rows], self.difficulty[rows])

    def log_odds(self, rows: Integers, noise: NoiseModel, tau: float) -> Floats:
        """Return the log-odds [m] that the labels of some rows are right, by Bayes' rule."""
        out = np.empty(len(rows))
        size = max(1, CELLS // self.calibrated.shape[1])
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            labels, at = self.labels[part], np.arange(len(part))
            q = softmax(noise.denoise(self.calibrated[part], self.difficulty[part]), tau)
            q *= noise.likelihood(self.difficulty[part], labels)
            right = q[at, labels].copy()
            q[at, labels] = 0
            out[start : start + size] = np.log(np.maximum(right, 1e-300)) - np.log(np.maximum(q.sum(axis=1), 1e-300))
        return out


def fit_posterior(probabilities: npt.NDArray[np.floating], labels: Integers) -> Posterior:
    """Return the posterior fitted to probabilities [n, K] and given labels [n] (see the module docstring)."""
    from scipy.optimize import isotonic_regression  # here: it takes a moment to import

    n, n_classes = probabilities.shape
    calibrated = Calibrated(probabilities, labels)
    rows = np.flatnonzero(labels >= 0)
    self_confidence = calibrated.of_class(labels)[rows]
    thresholds = np.log(class_thresholds(self_confidence, labels[rows], n_classes))
    predicted, confident = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
    difficulty, margin, margins = np.empty(n), np.empty(n), np.empty(n)
    data = _Rows(labels, calibrated, thresholds, confident, difficulty)
    for part in parts(n, n_classes):  # not at once: memory
        margins[part] = prediction_margin(log_probabilities(probabilities[part]))
        of_part = calibrated[part]
        comparable = of_part - THRESHOLD_POWER * thresholds
        predicted[part], difficulty[part] = comparable.argmax(axis=1), prediction_margin(comparable)
        margin[part] = label_margin(comparable, labels[part])
        confident[part] = (of_part - thresholds).max(axis=1) >= 0
    difficulty[:] = rank_within(difficulty, predicted)
    noise, tau = data.fit(rows, 1.0, 1.0)
    sharp = data.log_odds(rows, noise, tau)
    weight = MOST_WEIGHT * float(np.sqrt(split_half_agreement(data, rows, self_confidence)))
    score = combined_score(sharp, self_confidence, weight)
    # How little the classes are apart: the deviation of the prediction margins over their mean. It needs no labels, and
    # no temperature changes it. Clusters far from all boundaries have nearly equal margins. Overlapping ones have most
    # margins near zero: 0.76 is that of two classes with one normal distribution of scores between them.
    found = float(margins.std() / max(float(margins.mean()), 1e-12))
    log_odds = ACCURACY_LOG_ODDS + ACCURACY_SLOPE * found + ACCURACY_ERROR * np.array([0.0, -1.0, 1.0])
    accuracies: Floats = 1 / (1 + np.exp(-np.clip(log_odds, -30, 30)))
    sharpness = float(np.clip((OVERLAPPING - found) / (OVERLAPPING - APART), LEAST_SHARPNESS, 1))
    of_rows = sharp
    grows, accuracy = noise.b > 0, float(accuracies[0])
    if sharpness < 1:
        accuracy = max(accuracy, float((calibrated.best() == labels)[rows].mean()))
        noise, tau = data.fit(rows, sharpness, accuracy)
        of_rows = data.log_odds(rows, noise, tau)
    if grows and sharpness > LEAST_SHARPNESS:
        again = data.fit(rows, sharpness, accuracy, twice=True)
        of_again = data.log_odds(rows, *again)
        if share_wrong(of_again) > share_wrong(of_rows):  # less is what a network makes of labels it has memorized
            (noise, tau), of_rows = again, of_again
    right = np.full((2, len(labels)), np.nan)
    right[0, rows] = score
    # Probabilities that rise with the score and have the same mean. The mean of two such: their isotonic regression on
    # the score, and the sorted ones, which keeps rows apart that the regression makes equal.
    probabilities = 1 / (1 + np.exp(-np.clip(of_rows, -700, 700)))
    order = np.lexsort((probabilities, score))
    isotonic = np.asarray(isotonic_regression(probabilities[order]).x)
    right[1, rows[order]] = (isotonic + np.sort(probabilities)) / 2
    return Posterior(
        labels,
        calibrated,
        predicted,
        margin,
        difficulty,
        data.confident,
        noise,
        tau,
        overlap=found,
        flip_weight=(sharpness - LEAST_SHARPNESS) / (1 - LEAST_SHARPNESS),
        accuracies=accuracies,
        model_weight=weight,
        score=right[0],
        right=right[1],
        sharp_rate=share_wrong(sharp),
    )


def share_wrong(log_odds: Floats) -> float:
    """Return the expected share of wrong labels, from the log-odds [m] that each is right."""
    return float(1 - (1 / (1 + np.exp(-np.clip(log_odds, -700, 700)))).mean())


def combined_score(model: Floats, self_confidence: Floats, weight: float) -> Floats:
    """Return the weighted mean [m] of the noise model's log-odds and of self-confidence on the same scale.

    That scale: the k-th smallest self-confidence becomes the k-th smallest log-odds.
    """
    plain = np.empty(len(model))
    plain[np.argsort(self_confidence, kind="stable")] = np.sort(model)
    out: Floats = weight * model + (1 - weight) * plain
    return out


def split_half_agreement(data: _Rows, rows: Integers, self_confidence: Floats) -> float:
    """Return how well the corrections of two noise models agree that are fitted to half of the rows each, in 0..1.

    The correction of a row is the difference between the model's log-odds and self-confidence on their scale. Agreement
    is the concordance: twice the covariance over the sum of the variances.
    """
    kept = subsample(np.arange(len(rows)), data.calibrated.shape[1])
    some, plain = rows[kept], self_confidence[kept]
    if len(some) < 2 * FEWEST_CONFIDENT:
        return 0.0
    # Halves that depend neither on the order of rows nor on that of classes: every other of 64 groups of similar rows.
    groups = min(HALVING_GROUPS, len(some))
    size = (data.calibrated[some] ** 2).sum(axis=1)
    place = np.empty(len(some), dtype=np.int64)
    place[np.argsort(size, kind="stable")] = np.arange(len(some)) * groups // len(some)
    corrections = []
    for half in (0, 1):
        log_odds = data.log_odds(some, *data.fit(np.sort(some[place % 2 == half]), 1.0, 1.0))
        corrections.append(log_odds - combined_score(log_odds, plain, 0.0))
    (first, both), (_, second) = np.cov(np.stack(corrections))
    return float(np.clip(2 * both / max(first + second, 1e-12), 0, 1))


def clean_temperature(calibrated: Floats, labels: Integers, difficulty: Floats, noise: NoiseModel) -> float:
    """Return the temperature of the clean probabilities g for a given noise model: the mean of two estimates.

    The maximum-likelihood τ is too high where annotators and the network make the same errors, which it counts as
    correct labels. The τ that makes g as confident as the network is accurate (`estimated_accuracy`) is too low for a
    weak network, whose errors on confident rows were counted as noise. Their geometric mean is used.
    """
    some = subsample(np.flatnonzero(labels >= 0), calibrated.shape[1])
    logits = noise.denoise(calibrated[some], difficulty[some])
    likelihood = noise.likelihood(difficulty[some], labels[some])
    likeliest = best_temperature(
        lambda tau: float(np.log((softmax(logits, tau) * likelihood).sum(axis=1) + 1e-300).mean()), low=0.02, high=1.0
    )
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
