"""Audit labels from feature vectors alone, in seconds: a linear model, neighbors and the noise model; no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pars import seeds
from pars.audit.calibration import Floats, Integers, calibrate, log_probabilities, log_sum_exp, softmax
from pars.audit.check import Array, check_labels
from pars.audit.posterior import fit_posterior
from pars.audit.report import AuditReport
from pars.audit.scoring import neighbor_votes, score
from pars.errors import UserError
from pars.missing import is_missing

MOST_FEATURES = 2048  # more are projected to as many by a random matrix
NEIGHBOR_AXES = 64  # principal axes by which neighbors are found
NEIGHBORS = 20
PENALTIES = np.logspace(-3, 3, 13)  # times the mean eigenvalue
WEIGHTS = np.linspace(0, 1, 6)  # candidate weights of the neighbors
TEMPERATURE = 0.1  # of the regression's answers, before calibration
LARGEST = 1e100  # of a feature


def from_features(X: npt.ArrayLike, y: npt.ArrayLike, *, classes: Sequence[str] | None = None) -> AuditReport:
    """Return which labels are wrong, from features [n, d] and labels [n], without training a network.

    Ridge regression predicts each row from all others in closed form. It is fitted twice, to the given labels and to
    their posterior after the first fit, and both answers count. The votes of the nearest neighbors are mixed in as far
    as they make the given labels more likely. What it gives up is what a network learns beyond a linear model of these
    features.

    classes: names of the classes; by default the different labels, or 0 to the largest number.

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> x = 4 * y[:, None] + rng.standard_normal((200, 3))
    >>> y[7] = 0
    >>> int(from_features(x, y).suspects[0])
    7
    """
    x = np.asarray(X)
    if x.ndim != 2 or not np.issubdtype(x.dtype, np.number) or len(x) < 3:
        raise UserError(
            f"X has shape {list(x.shape)} and type {x.dtype}, expected numbers [rows, features], 3 rows or more"
        )
    if not np.isfinite(x).all():
        row = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
        raise UserError(f"X: row {row} has a value that is not finite")
    if np.issubdtype(x.dtype, np.complexfloating) or (x.dtype.kind == "f" and (np.abs(x) > LARGEST).any()):
        raise UserError(
            f"X has complex numbers, or some above {LARGEST:g}, expected real numbers whose squares are finite"
        )
    labels = np.asarray(y)
    if classes is None and labels.dtype.kind not in "iufb":
        classes = sorted({str(name) for name in labels.tolist() if not is_missing(name) and str(name).strip()})
    known = labels[np.isfinite(labels)] if classes is None and labels.dtype.kind == "f" else labels
    n_classes = len(classes) if classes is not None else int(known.max(initial=0)) + 1
    if n_classes < 2:
        raise UserError("labels of one class cannot be audited, expected at least two classes")
    given = check_labels(y, len(x), n_classes, classes).numbers
    if (given >= 0).sum() < 3:
        raise UserError(f"{int((given >= 0).sum())} rows have a label, expected 3 or more")
    regression = _Regression(x, given)
    linear = regression.probabilities(np.eye(n_classes)[np.maximum(given, 0)])
    votes = neighbor_votes(regression.axes, given, n_classes=n_classes, k=NEIGHBORS)
    first = _mixed(linear, votes, given)
    # Again, with what the labels probably are; a row's own target is taken out of its prediction as before.
    posterior = fit_posterior(first, given)
    clean = posterior.clean(slice(None))
    second = regression.probabilities(posterior.given_labels(clean, slice(None)))
    # Their geometric mean: the second is better where wrong labels follow the class, the first where they are random.
    p = np.sqrt(first * _mixed(second, votes, given))
    p /= p.sum(axis=1, keepdims=True)
    return score(p, y, classes=classes, neighbors=votes, scores={"linear": _of_label(linear, given)}, unseen=[first])


class _Regression:
    """Ridge regression of standardized features for every penalty, each row predicted from all others.

    f_i without row i is (f_i - h_i t_i) / (1 - h_i), h_i the weight of its target t_i in f_i (Allen 1974).
    """

    def __init__(self, x: Array, labels: Integers) -> None:
        self._known, self._labels = labels >= 0, labels
        z = np.asarray(x, dtype=np.float32)
        if z.shape[1] > MOST_FEATURES:
            random = seeds.generator(0, "audit/projection").standard_normal((z.shape[1], MOST_FEATURES))
            z = z @ random.astype(np.float32)
        z = z - z[self._known].mean(axis=0)
        std = z[self._known].std(axis=0)
        z /= np.where(std > 1e-6 * max(float(std.max(initial=0)), 1e-30), std, np.inf)
        fitted = z[self._known]
        if z.shape[1] <= len(fitted):
            values, vectors = np.linalg.eigh((fitted.T @ fitted).astype(np.float64))
        else:
            values, left = np.linalg.eigh((fitted @ fitted.T).astype(np.float64))
            vectors = fitted.T @ (left / np.sqrt(np.maximum(values, 1e-12))).astype(np.float32)
        kept = values > 1e-6 * max(float(values[-1]), 1e-30)
        if not kept.any():
            raise UserError("X is constant: all rows have the same features")
        self._values: Floats = values[kept][::-1]
        self._projected = z @ vectors[:, kept][:, ::-1].astype(np.float32)  # [n, r], largest axis first
        self._squares = self._projected**2
        self.axes: Array = self._projected[:, :NEIGHBOR_AXES]

    def probabilities(self, targets: Floats) -> Floats:
        """Return probabilities [n, K] of targets [n, K]; the penalty is the one that predicts most given labels."""
        n = int(self._known.sum())
        mean = targets[self._known].mean(axis=0)
        products = self._projected[self._known].T @ (targets[self._known] - mean).astype(np.float32)
        best, found = -1.0, targets
        for penalty in PENALTIES * self._values.mean():
            shrunk = (1 / (self._values + penalty)).astype(np.float32)
            answers = mean + self._projected @ (shrunk[:, None] * products)
            own = np.where(self._known, np.minimum(1 / n + self._squares @ shrunk, 1 - 1e-4), 0)[:, None]
            answers = (answers - own * targets) / (1 - own)
            met = float((answers.argmax(axis=1) == self._labels)[self._known].mean())
            if met >= best:
                best, found = met, answers
        return softmax(np.asarray(found, dtype=np.float64), TEMPERATURE)


def _mixed(linear: Floats, votes: Floats, labels: Integers) -> Floats:
    """Return the weighted geometric mean of both at the weight that makes the given labels most likely."""
    both = [
        calibrate(log_probabilities(p), labels)
        for p in (linear, (votes * NEIGHBORS + 0.5) / (NEIGHBORS + 0.5 * votes.shape[1]))
    ]
    rows = np.flatnonzero(labels >= 0)
    best: tuple[float, Any] = (-np.inf, None)
    for weight in WEIGHTS:
        mean = (1 - weight) * both[0] + weight * both[1]
        log_p = calibrate(mean - log_sum_exp(mean)[:, None], labels)
        likelihood = float(log_p[rows, labels[rows]].mean())
        if likelihood > best[0]:
            best = (likelihood, log_p)
    out: Floats = np.exp(best[1])
    return out


def _of_label(p: Floats, labels: Integers) -> Floats:
    out: Floats = np.where(labels >= 0, p[np.arange(len(p)), np.maximum(labels, 0)], np.nan)
    return out
