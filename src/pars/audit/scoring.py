"""Audit labels, given the predicted probabilities of any classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pars import seeds
from pars.audit.calibration import Calibrated, Floats, Integers, log_probabilities, parts, subsample, sums_by
from pars.audit.check import Array, GivenLabels, check_labels, check_probabilities, check_shape
from pars.audit.noise_model import dawid_skene, plausible_range, transition_em
from pars.audit.posterior import Posterior, fit_posterior, label_margin
from pars.audit.report import AuditReport, Confusion, find_warnings

CHOICES = 5  # classes reported per row
CONFUSIONS = 10  # pairs of classes reported
NEIGHBORS = 10
CLEAR = 2 / 3  # probability without the label from which on a row is not ambiguous
TWO_CLASSES_OVERLAP, CLASSES_OVERLAP = 0.66, 0.76  # overlap from which on nothing can be judged, for 2 and more classes
CELLS = 2**24  # similarities in memory at a time: 64 MB
BLOCK, FEW_COLUMNS = 64, 4096  # similarities that are looked at together; fewer than so many are not divided
VOTERS = 60_000  # with more labeled rows, a random sample of this size votes


def score(
    probabilities: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    early: npt.ArrayLike | None = None,
    features: npt.ArrayLike | None = None,
    neighbors: npt.ArrayLike | None = None,
    evidence: Mapping[str, Array] | None = None,
    estimates: Mapping[str, float] | None = None,
    warnings: Sequence[str] = (),
    scores: Mapping[str, Array] | None = None,
    unseen: Sequence[npt.ArrayLike] = (),
) -> AuditReport:
    """Return which labels are wrong, and what they should be.

    probabilities [n, K]: of a classifier that has not memorized these labels: out-of-fold predictions, or averages over
        training (`from_dynamics`).
    labels [n]: class numbers, or names out of `classes`; -1, None and NaN mean unlabeled.
    classes [K]: names of the columns of `probabilities`.
    early [n, K]: further predictions of the same rows, for another estimate of the noise rate.
    features [n, ...]: for the votes of the nearest neighbors; or pass these votes as neighbors [n, K].
    evidence, estimates, warnings: columns [n] by name, noise rates by name and warnings to include in the report.
    scores: further scores [n] by name for `report.scores`, low = suspect.
    unseen, each [n, K]: probabilities without the influence of a row's own label, NaN where there are none. They tell
        whether labels can be predicted at all, one of them suffices; by default `probabilities` do.

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
    if neighbors is None and features is not None:
        rows = check_shape(features, (len(p), *[-1] * (np.ndim(features) - 1)), "features")
        neighbors = neighbor_votes(rows, given.numbers, n_classes=p.shape[1], k=NEIGHBORS)
    if neighbors is not None:
        votes = check_shape(neighbors, p.shape, "neighbors")
        views["neighbors"] = votes.argmax(axis=1)
        columns["knn_agree"] = np.where(
            given.numbers >= 0, votes[np.arange(len(p)), np.maximum(given.numbers, 0)], np.nan
        )
    posterior = fit_posterior(p, given.numbers)
    named = _other_scores(p, given.numbers)
    more = {"neighbor_votes": columns["knn_agree"]} if "knn_agree" in columns else {}
    for name, values in {**more, **(scores or {})}.items():
        named[name] = np.where(given.numbers >= 0, values, np.nan)
    reason = why_not(posterior, given.numbers, [np.asarray(each) for each in unseen])
    return _build_report(posterior, given, p.argmax(axis=1), views, columns, estimates or {}, warnings, named, reason)


def _other_scores(p: npt.NDArray[np.floating], labels: Integers) -> dict[str, Array]:
    """Self-confidence and normalized margin [n]; NaN for unlabeled rows."""
    out: dict[str, Array] = {name: np.empty(len(p)) for name in ("self_confidence", "normalized_margin")}
    for part in parts(*p.shape):
        of_part, own = p[part].astype(np.float64), labels[part]
        of_label = of_part[np.arange(len(own)), np.maximum(own, 0)]
        out["self_confidence"][part] = np.where(own >= 0, of_label, np.nan)
        out["normalized_margin"][part] = (label_margin(of_part, own) + 1) / 2
    return out


def _build_report(
    posterior: Posterior,
    given: GivenLabels,
    predicted: Integers,
    views: Mapping[str, Integers],
    evidence: Mapping[str, Array],
    more: Mapping[str, float],
    warnings: Sequence[str],
    scores: Mapping[str, Array],
    reason: str,
) -> AuditReport:
    n, n_classes = posterior.calibrated.shape
    labels, n_choices = given.numbers, min(CHOICES, n_classes)
    right = posterior.right
    labeled = labels >= 0
    rank, of_labeled = np.zeros(n, np.int64), np.flatnonzero(labeled)  # ties of the score are broken by the margin
    order = np.lexsort((posterior.margin[labeled], posterior.score[labeled], right[labeled]))
    rank[of_labeled[order]] = np.arange(1, len(of_labeled) + 1)
    del order, of_labeled  # a million rows with ten classes: each is a tenth of the probabilities
    suggested, suggested_prob = np.zeros(n, np.int64), np.zeros(n)
    choices, choice_probs = np.zeros((n, n_choices), np.int32), np.zeros((n, n_choices), np.float32)
    ambiguous = np.zeros(n, dtype=bool)
    joint = np.zeros((n_classes, n_classes))  # expected rows [true, given]
    for part in parts(n, n_classes):
        clean = posterior.clean(part)
        ambiguous[part] = clean.max(axis=1) < CLEAR
        q = posterior.given_labels(clean, part)
        some = np.argpartition(-q, n_choices - 1, axis=1)[:, :n_choices]
        values = np.take_along_axis(q, some, axis=1)
        largest_first = np.argsort(-values, axis=1, kind="stable")
        some = np.take_along_axis(some, largest_first, axis=1)
        values = np.take_along_axis(values, largest_first, axis=1)
        choices[part], choice_probs[part] = some, values
        suggested[part], suggested_prob[part] = some[:, 0], values[:, 0]
        own = np.flatnonzero(labels[part] >= 0)
        joint += sums_by(labels[part][own], q[own], n_classes).T
    rate = float(1 - right[labeled].mean())
    estimates = {"posterior": rate, **_noise_rates(posterior, predicted, views), **more}
    low, high = plausible_range(estimates, int(labeled.sum()))
    if reason:
        low = 0.0
    true_rows = joint.sum(axis=1, keepdims=True)
    transition = (joint + 1e-9 * np.eye(n_classes)) / (true_rows + 1e-9)
    class_rows = joint.sum(axis=0)
    wrong = joint * (1 - np.eye(n_classes))
    cells = [divmod(int(cell), n_classes) for cell in np.argsort(-wrong, axis=None, kind="stable")[:CONFUSIONS]]
    confused = tuple(
        Confusion(given.classes[j], given.classes[k], float(wrong[j, k]), float(wrong[j, k] / joint[j].sum()))
        for j, k in cells
        if wrong[j, k] >= 0.5
    )
    return AuditReport(
        classes=given.classes,
        given=labels,
        suggested=suggested,
        predicted=predicted,
        given_label=given.as_given(labels),
        suggested_label=given.as_given(suggested),
        predicted_label=given.as_given(predicted),
        label_right_prob=right,
        suggested_prob=suggested_prob,
        margin=posterior.margin,
        rank=rank,
        is_label_issue=labeled & (suggested != labels),
        is_ambiguous=ambiguous,
        difficulty=posterior.difficulty,
        choices=choices,
        choice_probs=choice_probs,
        noise_rate=rate,
        noise_rate_low=low,
        noise_rate_high=high,
        estimators=estimates,
        transition_matrix=transition,
        class_error=np.where(class_rows > 0, 1 - np.diag(joint) / np.maximum(class_rows, 1e-12), np.nan),
        class_rows=np.rint(class_rows).astype(np.int64),
        confused=confused,
        reason=reason,
        scores=scores,
        warnings=(*warnings, *find_warnings(transition, labels, predicted, views, given.classes)),
        evidence=evidence,
    )


def why_not(posterior: Posterior, labels: Integers, unseen: Sequence[Array]) -> str:
    """Return why these labels cannot be judged; empty if they can.

    Either the labels cannot be predicted better than by their frequencies, or margins are those of classes that overlap
    (or of a network too weak to tell them apart): then a row whose label is not predicted may be ambiguous or wrong.
    """
    n_classes = posterior.calibrated.shape[1]
    labeled = np.flatnonzero(labels >= 0)
    sources = [(rows, each) for each in unseen if len(rows := labeled[np.isfinite(each[labeled]).all(axis=1)]) > 1]
    gains = []  # in standard errors, two of each source: likelihood of the labels over that by their frequencies, and
    none: list[tuple[Integers, Array | None]] = [(labeled, None)]
    for rows, each in [*sources] or none:
        own = labels[rows]
        shares = (np.bincount(own, minlength=n_classes) + 1) / (len(own) + n_classes)
        found, best = np.empty(len(own)), np.empty(len(own), dtype=np.int64)
        only = np.full(len(labels), -1)
        only[rows] = own
        of_source = None if each is None else Calibrated(each, only)
        for part in parts(len(rows), n_classes):
            if of_source is None:
                log_p = log_probabilities(np.exp(posterior.calibrated[rows[part]]))
            else:
                log_p = of_source[rows[part]]
            found[part], best[part] = log_p[np.arange(len(log_p)), own[part]], log_p.argmax(axis=1)
        gain = found - np.log(shares[own])
        gains.append(gain.mean() / max(gain.std() / np.sqrt(len(rows)), 1e-300) if len(rows) > 1 else np.inf)
        # Few rows can be predicted well with poor probabilities: agreement, over that of the most frequent class.
        most = shares.max()
        gains.append(((best == own).mean() - most) / np.sqrt(most * (1 - most) / max(1, len(rows))))
    if max(gains) <= 2:
        what = "features" if sources else "probabilities"
        return f"the {what} predict these labels no better than their frequencies do"
    if posterior.overlap >= (TWO_CLASSES_OVERLAP if n_classes == 2 else CLASSES_OVERLAP):
        return "classes overlap or the classifier is weak, so rows that disagree may be ambiguous and not wrong"
    return ""


def _noise_rates(posterior: Posterior, predicted: Integers, views: Mapping[str, Integers]) -> dict[str, float]:
    """Further estimates of the noise rate of labeled rows, by name."""
    rows = np.flatnonzero(posterior.labels >= 0)
    labels, adjusted = posterior.labels[rows], posterior.predicted[rows]
    disagrees = adjusted != labels
    out = {
        "disagreement": float(disagrees.mean()),
        # Confident learning's count: confident rows whose label is predicted neither with nor without thresholds.
        "confident": float((posterior.confident[rows] & disagrees & (predicted[rows] != labels)).mean()),
    }
    # A network with such margins has about this accuracy; what is left of its disagreement is noise.
    n_classes = posterior.calibrated.shape[1]
    agreement = float((posterior.calibrated.best()[rows] == labels).mean())
    for name, value in zip(("separation", "separation_low", "separation_high"), posterior.accuracies, strict=True):
        accuracy = max(float(value), agreement, 1.5 / n_classes)
        out[name] = min(1.0, (accuracy - agreement) / (accuracy - (1 - accuracy) / (n_classes - 1)))
    out["sharp"] = posterior.sharp_rate
    some = subsample(rows, posterior.calibrated.shape[1])
    out["transition"] = transition_em(posterior.clean(some), posterior.labels[some])[0]
    if views:
        votes = [posterior.predicted[some], *(view[some] for view in views.values())]
        out["votes"] = dawid_skene(posterior.labels[some], votes, posterior.calibrated.shape[1])
    return out


def neighbor_votes(features: Array, classes: Integers, *, n_classes: int, k: int = 10, seed: int = 0) -> Floats:
    """Return the fraction [n, K] of each class among a row's k nearest neighbors by cosine similarity.

    features [n, ...]; classes [n]: rows of class -1 do not vote, and no row votes on itself.

    >>> angles = np.array([0.0, 0.1, 0.2, 1.5])
    >>> neighbor_votes(np.stack([np.cos(angles), np.sin(angles)], axis=1), np.array([0, 0, 1, 1]), n_classes=2, k=2)
    array([[0.5, 0.5],
           [0.5, 0.5],
           [1. , 0. ],
           [0.5, 0.5]])
    """
    voters = np.flatnonzero(classes >= 0)
    if len(voters) > VOTERS:
        voters = np.sort(seeds.generator(seed, "audit/voters").permutation(voters)[:VOTERS])
    k = min(k, len(voters) - 1)
    out = np.zeros((len(classes), n_classes))
    if k < 1:
        return out
    flat = features.reshape(len(features), -1).astype(np.float32)
    flat = flat - flat.mean(axis=0)
    length = np.linalg.norm(flat, axis=1, keepdims=True)
    directions = np.asarray(flat / np.maximum(length, 1e-12), dtype=np.float32)  # a row of zeros stays zero
    of_voters = directions[voters].T
    place = np.full(len(classes), -1)  # position of a row among the voters
    place[voters] = np.arange(len(voters))
    size = max(1, CELLS // len(voters))
    for start in range(0, len(classes), size):
        similarity = directions[start : start + size] @ of_voters
        own = place[start : start + size]
        is_voter = np.flatnonzero(own >= 0)
        similarity[is_voter, own[is_voter]] = -np.inf
        nearest = largest(similarity, k)
        rows = np.repeat(np.arange(start, start + len(nearest)), k)
        np.add.at(out, (rows, classes[voters[nearest]].ravel()), 1 / k)
    return out


def largest(values: npt.NDArray[np.float32], k: int) -> Integers:
    """Return the columns [n, k] of the k largest values of each row [n, m], in no order.

    Of many columns, the largest are looked for in the k blocks with the largest maxima, where all of them are.
    """
    n, m = values.shape
    if m < FEW_COLUMNS:
        return np.argpartition(-values, k - 1, axis=1)[:, :k]
    whole = m // BLOCK * BLOCK
    blocks = values[:, :whole].reshape(n, -1, BLOCK)
    best = np.argpartition(-blocks.max(axis=2), k - 1, axis=1)[:, :k]
    columns = (best[:, :, None] * BLOCK + np.arange(BLOCK)).reshape(n, -1)
    rest = np.broadcast_to(np.arange(whole, m), (n, m - whole))
    columns = np.concatenate([columns, rest], axis=1)
    found = np.argpartition(-np.take_along_axis(values, columns, axis=1), k - 1, axis=1)[:, :k]
    return np.asarray(np.take_along_axis(columns, found, axis=1), dtype=np.int64)
