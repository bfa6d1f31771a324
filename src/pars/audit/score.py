"""The audit of probabilities, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pars.audit.belief import Belief, believe
from pars.audit.check import Array, GivenLabels, check_labels, check_probabilities, check_shape
from pars.audit.estimates import plausible_range, three_votes, transition_em
from pars.audit.neighbours import neighbour_votes
from pars.audit.posterior import Floats, Integers, fitted_rows, log_probabilities, sums_by
from pars.audit.report import AuditReport, Confusion
from pars.audit.warn import warnings_about

CHOICES = 5
CONFUSIONS = 10
NEIGHBOURS = 10


def score(
    probabilities: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    early: npt.ArrayLike | None = None,
    features: npt.ArrayLike | None = None,
    neighbours: npt.ArrayLike | None = None,
    evidence: Mapping[str, Array] | None = None,
    estimates: Mapping[str, float] | None = None,
    warnings: Sequence[str] = (),
) -> AuditReport:
    """Which of the labels are wrong, and what they should be.

    probabilities [n, K]: of a classifier that did not learn these very labels by heart: out-of-fold predictions, or
    averages over training (`from_dynamics`). labels [n]: class numbers, or names out of `classes`; -1 = unlabelled.
    early [n, K], features [n, …], neighbours [n, K] (votes of the nearest rows; made from features where not given):
    further views of the rows, for one more estimate of the noise rate and for the evidence in words. evidence,
    estimates, warnings: further columns, noise rates by name, and words that the report is to hold.

    >>> p = np.array([[0.9, 0.1]] * 30 + [[0.1, 0.9]] * 30)
    >>> report = score(p, [0] * 30 + [1] * 29 + [0])
    >>> report.suspects[0], report.suggested_label[59], report.noise_rate < 0.1
    (np.int64(59), np.int64(1), True)
    """
    p = check_probabilities(probabilities)
    given = check_labels(labels, len(p), p.shape[1], classes)
    views, columns = {}, dict(evidence or {})
    if early is not None:
        views["early"] = np.asarray(check_shape(early, p.shape, "early")).argmax(axis=1)
    if neighbours is None and features is not None:
        rows = check_shape(features, (len(p), *[-1] * (np.ndim(features) - 1)), "features")
        neighbours = neighbour_votes(rows, given.numbers, n_classes=p.shape[1], k=NEIGHBOURS)
    if neighbours is not None:
        votes = check_shape(neighbours, p.shape, "neighbours")
        views["neighbours"] = votes.argmax(axis=1)
        columns["knn_agree"] = np.where(
            given.numbers >= 0, votes[np.arange(len(p)), np.maximum(given.numbers, 0)], np.nan
        )
    belief = believe(log_probabilities(p), given.numbers)
    return report_of(belief, given, p.argmax(axis=1), views, columns, estimates or {}, warnings)


def report_of(
    belief: Belief,
    given: GivenLabels,
    predicted: Integers,
    views: Mapping[str, Integers],
    evidence: Mapping[str, Array],
    more: Mapping[str, float],
    warnings: Sequence[str],
) -> AuditReport:
    """Verdicts from beliefs."""
    n, n_classes = belief.honest.shape
    labels, n_choices = given.numbers, min(CHOICES, n_classes)
    right, odds = np.full(n, np.nan), np.full(n, np.nan)
    choices, choice_probs = np.zeros((n, n_choices), np.int64), np.zeros((n, n_choices))
    joint = np.zeros((n_classes, n_classes))  # true, given
    for part in belief.parts():
        q = belief.posterior(part)
        choices[part], choice_probs[part] = largest(q, n_choices)
        own = np.flatnonzero(labels[part] >= 0)
        of_label = q[own, labels[part][own]]
        q_others = q[own].copy()
        q_others[np.arange(len(own)), labels[part][own]] = 0
        at = own + part.start
        right[at] = of_label
        odds[at] = np.log(np.maximum(of_label, 1e-300)) - np.log(np.maximum(q_others.sum(axis=1), 1e-300))
        joint += sums_by(labels[at], q[own], n_classes).T
    labelled = labels >= 0
    rate = float(1 - right[labelled].mean())
    estimates = {"posterior": rate, **other_estimates(belief, predicted, views), **more}
    low, high = plausible_range(estimates, int(labelled.sum()))
    true_rows = joint.sum(axis=1, keepdims=True)
    transition = (joint + 1e-9 * np.eye(n_classes)) / (true_rows + 1e-9)
    class_rows = joint.sum(axis=0)
    suggested = choices[:, 0]
    return AuditReport(
        classes=given.classes,
        given=labels,
        suggested=suggested,
        predicted=predicted,
        given_label=given.in_own_words(labels),
        suggested_label=given.in_own_words(suggested),
        predicted_label=given.in_own_words(predicted),
        label_right_prob=right,
        suggested_prob=choice_probs[:, 0],
        margin=belief.margin,
        rank=ranked(odds, belief.margin),
        is_label_issue=labelled & (suggested != labels),
        difficulty=belief.difficulty,
        choices=choices,
        choice_probs=choice_probs,
        noise_rate=rate,
        noise_rate_low=low,
        noise_rate_high=high,
        estimators=estimates,
        transition_matrix=transition,
        class_error=np.where(class_rows > 0, 1 - np.diag(joint) / np.maximum(class_rows, 1e-12), np.nan),
        class_rows=np.rint(class_rows).astype(np.int64),
        confused=confusions(joint, given.classes),
        warnings=(*warnings, *warnings_about(transition, labels, predicted, views, given.classes)),
        evidence=evidence,
    )


def largest(q: Floats, count: int) -> tuple[Integers, Floats]:
    """The columns of the largest values of each row, largest first, and the values."""
    some = np.argpartition(-q, count - 1, axis=1)[:, :count]
    values = np.take_along_axis(q, some, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1), np.take_along_axis(values, order, axis=1)


def ranked(odds: Floats, margin: Floats) -> Integers:
    """1 for the lowest odds that the label is right, margins decide between equals; 0 where there is no label."""
    labelled = np.flatnonzero(~np.isnan(odds))
    order = labelled[np.lexsort((margin[labelled], odds[labelled]))]
    out = np.zeros(len(odds), np.int64)
    out[order] = np.arange(1, len(order) + 1)
    return out


def other_estimates(belief: Belief, predicted: Integers, views: Mapping[str, Integers]) -> dict[str, float]:
    """Noise rates by name, of labelled rows."""
    rows = np.flatnonzero(belief.labels >= 0)
    labels, ours = belief.labels[rows], belief.predicted[rows]
    out = {
        "disagreement": float((ours != labels).mean()),
        # Confident learning's count: sure rows whose label is neither our prediction nor the network's own.
        "confident": float((belief.sure[rows] & (ours != labels) & (predicted[rows] != labels)).mean()),
    }
    some = fitted_rows(rows, belief.honest.shape[1])
    out["transition"] = transition_em(belief.clean(some), belief.labels[some])[0]
    if views:
        votes = [belief.predicted[some], *(view[some] for view in views.values())]
        out["votes"] = three_votes(belief.labels[some], votes, belief.honest.shape[1])
    return out


def confusions(joint: Floats, classes: tuple[str, ...]) -> tuple[Confusion, ...]:
    """The pairs with most expected rows, half a row or more."""
    off = joint * (1 - np.eye(len(joint)))
    best = np.argsort(-off, axis=None, kind="stable")[:CONFUSIONS]
    pairs: list[tuple[int, int]] = [divmod(int(cell), len(joint)) for cell in best]
    return tuple(
        Confusion(classes[true], classes[given], float(off[true, given]), float(off[true, given] / joint[true].sum()))
        for true, given in pairs
        if off[true, given] >= 0.5
    )
