"""The result of an audit, in numbers and in words: for every row and for the whole data set."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from itertools import combinations
from numbers import Integral
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pars.audit.calibration import Floats, Integers
from pars.audit.check import Array
from pars.audit.suspects import suspects_html, suspects_text
from pars.audit.verify import VerificationSample, draw_sample
from pars.errors import UserError

COMMON_CONFUSION = 0.02  # of the rows of a class; rarer confusions explain nothing
FEW_LABELS = 10
SHOWN = 5
DEPENDENT = 0.995  # agreement above which two views are not independent


@dataclass(frozen=True)
class Confusion:
    """Rows of class `true` that are labeled `given`."""

    true: str
    given: str
    expected_rows: float
    share_of_true: float  # fraction of the rows of the true class


@dataclass(frozen=True)
class Review:
    """The most suspect rows, and what to expect of checking them by hand."""

    rows: Integers  # row numbers, most suspect first
    expected_precision: float  # fraction of them whose label is wrong
    expected_recall: float  # fraction of all wrong labels that are among them
    expected_precision_low: float = float("nan")  # the same if the noise rate is at the ends of its range
    expected_precision_high: float = float("nan")
    report: AuditReport | None = field(default=None, repr=False, compare=False)

    def open(self, rows: Any = None, **options: Any) -> Any:
        """Review these rows in the browser: `pars.review` of their report. In a notebook the result shows as a link.

        rows: the texts, image files, arrays or frame that were audited. options: further arguments of `pars.review`.
        """
        import pars

        return pars.review(self.report, rows, suspects=self.rows, **options)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport:
    """The audit of n rows and K classes.

    Per row [n]; unlabeled rows have NaN, rank 0 and a suggested label:

    given, suggested, predicted                     class numbers (-1 = unlabeled); predicted: without the label
    given_label, suggested_label, predicted_label   the same in the form of the input: numbers or names ("" = unlabeled)
    label_right_prob   probability that the given label is correct
    suggested_prob     posterior probability of the suggested label
    margin             log-odds of the given label against the best other class, without the label
    rank               1 = most suspect
    is_label_issue     another class is more probable than the given one
    is_ambiguous       without the label, no class has a probability of 2/3
    difficulty         rank of the prediction margin within the predicted class, 0 = easiest, 1 = hardest
    choices            the most probable classes, best first [n, ≤5], with `choice_probs`
    evidence           further columns by name, such as `p_mean` or `knn_agree`

    Of the data set:

    noise_rate         1 - mean label_right_prob; with its plausible range and all `estimators` by name
    transition_matrix  [j, k] = P(given k | true j)
    class_error        [k] = fraction of the labels k that are wrong; class_rows [k]: number of these labels
    confused           the most frequent confusions
    reason             why these labels cannot be judged; empty if they can (`can_judge`)

    scores             other scores of the same rows by name [n], low = suspect, to compare with: self_confidence,
                       normalized_margin; with features neighbor_votes; from a training run aum, agree, p_last
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
    is_ambiguous: npt.NDArray[np.bool_]
    difficulty: Floats
    choices: npt.NDArray[np.int32]
    choice_probs: npt.NDArray[np.float32]
    noise_rate: float
    noise_rate_low: float
    noise_rate_high: float
    estimators: Mapping[str, float]
    transition_matrix: Floats
    class_error: Floats
    class_rows: Integers
    confused: tuple[Confusion, ...]
    warnings: tuple[str, ...]
    reason: str = ""
    scores: Mapping[str, Array] = field(default_factory=dict)
    evidence: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.given)

    @property
    def n_labeled(self) -> int:
        """Number of labeled rows."""
        return int((self.given >= 0).sum())

    @property
    def can_judge(self) -> bool:
        """Whether wrong labels can be told from ambiguous rows; if not, `reason` says why."""
        return not self.reason

    @property
    def headline(self) -> str:
        """The first thing to say: the noise rate, or that and why these labels cannot be judged."""
        between = f"{100 * self.noise_rate_low:.1f} to {100 * self.noise_rate_high:.1f} %"
        if self.reason:
            return (
                f"Cannot judge these labels: {self.reason}. From {between} of {self.n_labeled} labels may be wrong; "
                f"{int(self.is_ambiguous.sum())} rows are ambiguous."
            )
        rate = f"{100 * self.noise_rate:.1f} % of {self.n_labeled} labels"
        return f"Estimated noise rate: {rate} (plausible range {between})."

    @cached_property
    def suspects(self) -> Integers:
        """Row numbers of all labeled rows, most suspect first."""
        order = np.argsort(self.rank, kind="stable")
        return np.asarray(order[len(order) - self.n_labeled :], dtype=np.int64)

    @cached_property
    def why(self) -> Array:
        """The evidence for each row in words [n]."""
        return np.array([explain_row(self, row) for row in range(len(self))], dtype=object)

    def review(self, n: int | None = None, *, precision: float | None = None) -> Review:
        """Return the rows to check by hand: the n most suspect, or as many as reach an expected precision.

        Without either, all rows with `is_label_issue`.

        >>> from pars.audit import score
        >>> report = score(np.array([[0.9, 0.1]] * 30 + [[0.1, 0.9]] * 30), [0] * 30 + [1] * 29 + [0])
        >>> report.review(1).rows
        array([59])
        """
        if n is not None and precision is not None:
            raise UserError(f"review got n = {n} and precision = {precision}, expected one of them")
        wrong = 1 - self.label_right_prob[self.suspects]
        found = np.cumsum(wrong)
        if precision is not None:
            if not 0 < precision <= 1:
                raise UserError(f"precision is {precision}, expected a number above 0 and at most 1")
            n = int((found / np.arange(1, len(found) + 1) >= precision).sum())  # the running mean never rises
        elif n is None:
            n = int(self.is_label_issue.sum())
        if not isinstance(n, Integral) or n < 0:
            raise UserError(f"review of {n!r} rows, expected 0 or more")
        n = min(n, len(found))
        here = float(found[n - 1]) if n else 0.0
        total = float(found[-1])
        ends = [float("nan")] * 2
        if n:
            odds = np.log(np.clip(wrong, 1e-12, 1 - 1e-12)) - np.log(np.clip(1 - wrong, 1e-12, 1))
            for end, rate in enumerate((self.noise_rate_low, self.noise_rate_high)):
                low, high = -40.0, 40.0  # by how much all log-odds are shifted to have that noise rate
                for _ in range(50):
                    shift = (low + high) / 2
                    shifted = 1 / (1 + np.exp(-np.clip(odds + shift, -60, 60)))
                    low, high = (shift, high) if shifted.mean() < rate else (low, shift)
                expected = float(shifted[:n].sum())
                ends[end] = (np.floor(expected) if end == 0 else np.ceil(expected)) / n  # whole rows are wrong or not
        precision, recall = here / n if n else float("nan"), here / total if total else 1.0
        return Review(self.suspects[:n], precision, recall, ends[0], ends[1], self)

    def with_checked(self, checked: npt.NDArray[np.bool_]) -> AuditReport:
        """Return the report with the labels of some rows [n] known to be right: people have checked them."""
        right = checked & (self.given >= 0)
        quality = np.where(right, 1.0, self.label_right_prob)
        labeled = np.flatnonzero(self.given >= 0)
        rank = np.zeros(len(self), dtype=np.int64)
        # Checked rows last, the others as they were.
        rank[labeled[np.lexsort((self.rank[labeled], right[labeled]))]] = np.arange(1, len(labeled) + 1)
        shift = float(np.nanmean(quality) - np.nanmean(self.label_right_prob)) if len(labeled) else 0.0
        low, rate, high = (
            max(0.0, value - shift) for value in (self.noise_rate_low, self.noise_rate, self.noise_rate_high)
        )
        return replace(
            self,
            label_right_prob=quality,
            suggested=np.where(right, self.given, self.suggested),
            suggested_label=np.where(right, self.given_label, self.suggested_label),
            suggested_prob=np.where(right, 1.0, self.suggested_prob),
            is_label_issue=self.is_label_issue & ~right,
            rank=rank,
            noise_rate=rate,
            noise_rate_low=low,
            noise_rate_high=high,
        )

    def verify(self, n: int = 200, *, seed: int = 0) -> VerificationSample:
        """Return n rows for people to check. Their answers give a noise rate with a confidence interval."""
        return draw_sample(self.label_right_prob, n, seed)

    def __repr__(self) -> str:
        return (
            f"<AuditReport of {len(self)} rows and {len(self.classes)} classes: {100 * self.noise_rate:.1f} % of the "
            f"labels are wrong (estimate), {int(self.is_label_issue.sum())} are flagged>"
        )

    def __str__(self) -> str:
        return f"{self!r}\n{suspects_text(self)}" if self.is_label_issue.any() else repr(self)

    def _repr_html_(self) -> str:
        """For notebooks: the estimate, and the most suspect rows."""
        return f"<p>{escape(repr(self)[1:-1])}</p>{suspects_html(self)}"

    def to_frame(self, library: Literal["pandas", "polars"] | None = None) -> Any:
        """Return the columns of audit.csv as a data frame, most suspect rows first; `index` is the row number.

        library: by default pandas, or polars where pandas is not installed.
        """
        from pars.audit.export import columns  # which imports this module

        for name in ("pandas", "polars") if library is None else (library,):
            try:
                return importlib.import_module(name).DataFrame(columns(self))
            except ImportError:
                continue
        raise UserError(f"to_frame needs {library or 'pandas or polars'}: pip install {library or 'pandas'}")

    def summary(self) -> dict[str, Any]:
        """Return the estimates for the data set as JSON values."""
        review = self.review()
        return {
            "n": len(self.given),
            "n_labeled": self.n_labeled,
            "k": len(self.classes),
            "classes": list(self.classes),
            "noise_rate": self.noise_rate,
            "noise_rate_low": self.noise_rate_low,
            "noise_rate_high": self.noise_rate_high,
            "estimators": dict(self.estimators),
            "label_issues": len(review.rows),
            "expected_precision": None if not len(review.rows) else review.expected_precision,
            "expected_precision_low": None if not len(review.rows) else review.expected_precision_low,
            "expected_precision_high": None if not len(review.rows) else review.expected_precision_high,
            "expected_recall": review.expected_recall,
            "can_judge": not self.reason,
            "reason": self.reason,
            "ambiguous": int(self.is_ambiguous.sum()),
            "transition_matrix": self.transition_matrix.tolist(),
            "class_noise": [
                {"class": name, "labels": int(rows), "wrong": None if np.isnan(error) else float(error)}
                for name, rows, error in zip(self.classes, self.class_rows, self.class_error, strict=True)
            ],
            "confused": [vars(pair) for pair in self.confused],
            "warnings": list(self.warnings),
        }


def explain_row(report: AuditReport, row: int) -> str:
    """Return the evidence for and against the given label of a row, in words."""
    given, suggested = int(report.given[row]), int(report.suggested[row])
    best, name = (
        text if len(text) <= 60 else f"{text[:59]}…" for text in (report.classes[suggested], report.classes[given])
    )
    if given < 0:
        return f"no label; {best} is most probable ({percent(report.suggested_prob[row])})"
    right = report.label_right_prob[row]
    if report.is_label_issue[row]:
        words = [f"{best} is more probable ({percent(report.suggested_prob[row])}) than {name} ({percent(right)})"]
        share = float(report.transition_matrix[suggested, given])
        if share >= COMMON_CONFUSION:
            words.append(f"{percent(share)} of {best} are labeled {name}")
    elif report.margin[row] > 0:
        words = [f"{name} is predicted, too ({percent(right)})"]
    else:
        words = [f"another class is predicted, but {name} is still the most probable ({percent(right)})"]
    columns = report.evidence
    if "agree" in columns:
        words.append(f"predicted {name} in {percent(columns['agree'][row])} of the epochs")
    if "knn_agree" in columns:
        words.append(f"{percent(columns['knn_agree'][row])} of its neighbors are labeled {name}")
    if "label_used_in_loss" in columns and not columns["label_used_in_loss"][row]:
        words.append("held out: this label was not used for training")
    return "; ".join(words)


def percent(fraction: float) -> str:
    """Return a fraction in percent without decimals; 0 % and 100 % only if exact.

    >>> percent(0.514), percent(0.001), percent(0.9999), percent(1.0)
    ('51 %', '<1 %', '>99 %', '100 %')
    """
    if 0 < fraction < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= fraction < 1 else f"{100 * fraction:.0f} %"


def find_warnings(
    transition: Floats, labels: Integers, predicted: Integers, views: Mapping[str, Integers], classes: tuple[str, ...]
) -> list[str]:
    """Return warnings about swapped classes, classes with few labels, and views that are not independent.

    transition [K, K]; labels [n], -1 = unlabeled; predicted [n]; views: further predictions [n] by name.
    """
    counts = np.bincount(labels[labels >= 0], minlength=len(classes))
    out = []
    # No method can tell noise above 50 % from swapped names.
    others, rows = transition * (1 - np.eye(len(transition))), np.arange(len(transition))
    worst = others.argmax(axis=1)
    swapped = np.flatnonzero((others[rows, worst] > transition[rows, rows]) & (counts > 0))
    if swapped.size:
        pairs = [f"{classes[j]} as {classes[worst[j]]} ({100 * others[j, worst[j]]:.0f} %)" for j in swapped[:SHOWN]]
        out.append(f"mostly labeled as another class: {', '.join(pairs)}; are these classes swapped?")
    if (few := np.flatnonzero(counts < FEW_LABELS)).size:
        names = ", ".join(f"{classes[k]} ({counts[k]})" for k in few[:SHOWN]) + (", …" if few.size > SHOWN else "")
        out.append(f"few labels of: {names}; estimates for these classes rely on all classes")
    named = {"the prediction": predicted, **{f"the {name} view": view for name, view in views.items()}}
    for (name, one), (other_name, other) in combinations(named.items(), 2):
        if float((one == other).mean()) > DEPENDENT:
            out.append(f"{name} and {other_name} nearly always agree: these two estimates are not independent")
    return out
