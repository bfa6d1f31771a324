"""What an audit says: a verdict for every row, and the numbers of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.audit.calibration import Floats, Integers
from pars.audit.check import Array
from pars.audit.explain import reason
from pars.audit.verify import Sample, draw_sample
from pars.errors import UserError


@dataclass(frozen=True)
class Confusion:
    """Rows that are probably `true` and labeled `given`: how many are expected, and of how many rows of that class."""

    true: str
    given: str
    expected_rows: float
    share_of_true: float


@dataclass(frozen=True)
class Review:
    """What to expect of checking the most suspect rows by hand."""

    rows: Integers  # row numbers, most suspect first
    expected_precision: float  # share of them whose label is wrong
    expected_recall: float  # share of all wrong labels that are among them

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class AuditReport:
    """The audit of n rows and K classes. Per row [n]; a row without a label has NaN, rank 0 and a suggestion.

    given, suggested, predicted                     class numbers (-1 = none); predicted = largest probability
    given_label, suggested_label, predicted_label   the same as the labels came: numbers or names ("" = none)
    label_right_prob   probability that the given label is right
    suggested_prob     probability of the suggested label, the given one considered
    margin             log-odds of the given label against the best other class, before the label is considered
    rank               1 = most suspect
    is_label_issue     another class is more probable than the given one
    difficulty         0 = the network leads most clearly among rows predicted so … 1 = least
    choices            the most probable classes' numbers, best first [n, ≤5], and `choice_probs`
    evidence           further columns by name, such as `p_mean` or `knn_agree`

    Of the whole: noise_rate = 1 - mean label_right_prob, its plausible range and every estimate by name;
    transition_matrix[j, k] = P(given k | true j); class_error[k] = share of the labels k that are wrong.
    """

    classes: tuple[str, ...]
    given: Integers
    suggested: Integers
    predicted: Integers
    given_label: Array
    suggested_label: Array
    predicted_label: Array
    label_right_prob: Floats
    suggested_prob: Floats
    margin: Floats
    rank: Integers
    is_label_issue: npt.NDArray[np.bool_]
    difficulty: Floats
    choices: Integers
    choice_probs: Floats
    noise_rate: float
    noise_rate_low: float
    noise_rate_high: float
    estimators: Mapping[str, float]
    transition_matrix: Floats
    class_error: Floats
    class_rows: Integers
    confused: tuple[Confusion, ...]
    warnings: tuple[str, ...]
    evidence: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.given)

    @property
    def n_labeled(self) -> int:
        return int((self.given >= 0).sum())

    @cached_property
    def suspects(self) -> Integers:
        """Row numbers of all labeled rows, most suspect first."""
        order = np.argsort(self.rank, kind="stable")
        return np.asarray(order[len(self) - self.n_labeled :], dtype=np.int64)

    @cached_property
    def why(self) -> Array:
        """The evidence on each row in words."""
        return np.array([reason(self, row) for row in range(len(self))], dtype=object)

    def review(self, n: int | None = None, *, precision: float | None = None) -> Review:
        """What to expect of checking the n most suspect rows, or as many as keep the expected precision.

        Without either: all rows whose label is called an issue.
        """
        if n is not None and precision is not None:
            raise UserError("review takes a number of rows or a precision, not both")
        wrong = 1 - self.label_right_prob[self.suspects]
        found = np.cumsum(wrong)
        if precision is not None:
            if not 0 < precision <= 1:
                raise UserError(f"precision is {precision}, expected a share above 0 and up to 1")
            n = int((found / np.arange(1, len(found) + 1) >= precision).sum())  # the mean only falls
        elif n is None:
            n = int(self.is_label_issue.sum())
        if n < 0:
            raise UserError(f"review of {n} rows, expected 0 or more")
        n = min(n, len(found))
        here = float(found[n - 1]) if n else 0.0
        total = float(found[-1])
        return Review(self.suspects[:n], here / n if n else float("nan"), here / total if total else 1.0)

    def verify(self, n: int = 200, *, seed: int = 0) -> Sample:
        """About n rows for people to check; their verdicts give a noise rate with an interval, and calibrate."""
        return draw_sample(self.label_right_prob, n, seed)

    def summary(self) -> dict[str, Any]:
        """The whole in numbers, as JSON values."""
        review = self.review()
        return {
            "n": len(self),
            "n_labeled": self.n_labeled,
            "k": len(self.classes),
            "classes": list(self.classes),
            "noise_rate": self.noise_rate,
            "noise_rate_low": self.noise_rate_low,
            "noise_rate_high": self.noise_rate_high,
            "estimators": dict(self.estimators),
            "label_issues": len(review),
            "expected_precision": None if not len(review) else review.expected_precision,
            "expected_recall": review.expected_recall,
            "transition_matrix": self.transition_matrix.tolist(),
            "class_noise": [
                {"class": name, "labels": int(rows), "wrong": None if np.isnan(error) else float(error)}
                for name, rows, error in zip(self.classes, self.class_rows, self.class_error, strict=True)
            ],
            "confused": [vars(pair) for pair in self.confused],
            "warnings": list(self.warnings),
        }
