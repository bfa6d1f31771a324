"""The result of a fit: what was trained, which labels are wrong, whether it helped; in numbers and in words.

Whether it helped: two classifiers are compared on held-out rows whose labels may be wrong themselves.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pars.audit import AuditReport, Content, suspects_html
from pars.fitting.prediction import Predictor
from pars.method_api import AUTO

Labels = npt.NDArray[np.int64]
Verdict = Literal["helped", "hurt", "inconclusive"]
Z = 1.96  # of a 95 % interval
LEAST_SLOPE = 0.1  # of agreement over accuracy: below it, chance is magnified more than tenfold


@dataclass(frozen=True)
class Gain:
    """Accuracies of the robust and the plain classifier in 0..1, their difference and its 95 % interval."""

    rows: int
    robust: float
    plain: float
    gain: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        if self.low > 0:
            return "helped"
        return "hurt" if self.high < 0 else "inconclusive"


def gain(robust: Labels, plain: Labels, labels: Labels) -> Gain:
    """Compare two predictions of the same rows, row by row. Shapes: all [n].

    The interval is that of the mean of paired differences, with half a row added to each cell of the table of right and
    wrong, so that a handful of rows without a single difference does not look certain (Agresti & Min 2005).

    >>> import numpy as np
    >>> y = np.arange(100) % 2
    >>> found = gain(y, np.where(np.arange(100) < 20, 1 - y, y), y)
    >>> found.robust, found.plain, round(found.gain, 2), found.verdict
    (1.0, 0.8, 0.2, 'helped')
    """
    right, other = robust == labels, plain == labels
    n, better, worse = len(labels), int((right & ~other).sum()), int((other & ~right).sum())
    b, c, m = better + 0.5, worse + 0.5, n + 2
    middle, half = (b - c) / m, Z * math.sqrt((b + c) / m - ((b - c) / m) ** 2) / math.sqrt(m)
    return Gain(n, float(right.mean()), float(other.mean()), (better - worse) / n, middle - half, middle + half)


def noise_corrected(measured: Gain, noise_rate: float, n_classes: int) -> Gain | None:
    """The gain on right labels, estimated from one on labels of which `noise_rate` are wrong; None where too many are.

    If wrong labels are spread evenly over the other classes, a classifier of accuracy a agrees with
    a (1 - ε) + (1 - a) ε/(K-1) of them. That is a straight line in a: solved for a, it gives the accuracy on right
    labels, and differences grow by the same factor. Who is better does not change, only by how much.

    >>> measured = Gain(rows=1000, robust=0.5, plain=0.4, gain=0.1, low=0.05, high=0.15)
    >>> clean = noise_corrected(measured, noise_rate=0.45, n_classes=10)
    >>> assert clean is not None
    >>> round(clean.robust, 3), round(clean.gain, 3), round(clean.low, 3)
    (0.9, 0.2, 0.1)
    """
    floor = noise_rate / (n_classes - 1)
    slope = 1 - noise_rate - floor
    if slope < LEAST_SLOPE:
        return None
    robust, plain = (min(1.0, max(0.0, (agreement - floor) / slope)) for agreement in (measured.robust, measured.plain))
    low, high = (min(1.0, max(-1.0, difference / slope)) for difference in (measured.low, measured.high))
    return Gain(measured.rows, robust, plain, robust - plain, low, high)


@dataclass(frozen=True)
class Retraining:
    """What a review changed: labels, and the accuracy on right labels (`pars.fitting.retraining`)."""

    reviewed: str  # folder of the fit that was reviewed; "" where it is not known
    corrected: int
    confirmed: int
    dropped: int
    judged_by: Literal["test", "held_out"] | None = None  # None: not judged, `reason` says why
    change: Gain | None = None  # `robust` with the labels as they are now, `plain` with those before
    reason: str = ""

    @property
    def verdict(self) -> Literal["better", "worse", "inconclusive"] | None:
        if self.change is None:
            return None
        if self.change.verdict == "inconclusive":
            return "inconclusive"
        return "better" if self.change.verdict == "helped" else "worse"

    def summary(self) -> dict[str, Any]:
        """All numbers as plain values, for JSON."""
        found: dict[str, Any] = {"verdict": self.verdict, "judged_by": self.judged_by, "reason": self.reason}
        found |= {name: getattr(self, name) for name in ("reviewed", "corrected", "confirmed", "dropped")}
        if (g := self.change) is not None:
            found |= {"rows": g.rows, "before": g.plain, "after": g.robust}
            found |= {"change": g.gain, "low": g.low, "high": g.high}
        return found

    def __str__(self) -> str:
        counts = f"{self.corrected} labels corrected, {self.confirmed} confirmed, {self.dropped} rows dropped."
        if (g := self.change) is None:
            return f"Your review: {counts}\n  What it changed cannot be judged: {self.reason}"
        rows = "test rows" if self.judged_by == "test" else "rows with right labels that were not trained on"
        interval = f"{100 * g.gain:+.1f} points, 95 % interval {100 * g.low:+.1f} to {100 * g.high:+.1f}"
        endings = {
            "better": "The review improved the classifier.",
            "worse": "The review made the classifier worse: look at its decisions again.",
            "inconclusive": "Whether the review helped is inconclusive: the 95 % interval includes 0.",
        }
        return (
            f"Your review: {counts}\n"
            f"  accuracy before and after: {100 * g.plain:.1f} % and {100 * g.robust:.1f} % of {g.rows} {rows} "
            f"({interval})\n{endings[self.verdict or 'inconclusive']}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class FitResult:
    """A robust classifier, the audit of its labels, and its comparison with plain training at the same cost.

    `print(result)` says it in words. Gains are those of `method` over plain cross-entropy.
    """

    method: str
    classes: tuple[str, ...]
    predictor: Predictor  # the robust classifier
    audit: AuditReport
    held_out: npt.NDArray[np.bool_]  # [n] rows that were not trained on
    predictions: npt.NDArray[np.int64]  # [n] class numbers of every row
    plain_predictions: npt.NDArray[np.int64] | None  # the same of plain training; None without it
    held_out_accuracy: float  # of the robust classifier, on held-out given labels
    held_out_gain: Gain | None  # measured on held-out given labels; None without plain training
    corrected_gain: Gain | None  # the estimate for right labels; None where the labels are too noisy
    clean_gain: Gain | None  # measured on right labels, where some are known
    selected_checkpoint: dict[str, Any] | None  # stage and epoch of the weights, where they are not the last
    content: Content | None = None  # texts or files of the rows, for people
    out: Path | None = None
    same_cost: bool = True  # whether plain training cost as much; it cannot where `method` has no network
    replaced: str | None = None
    """What was asked for, where it is not `method`: "auto", or one that a linear model is clearly better than."""
    retraining: Retraining | None = None  # of a fit with checked labels: what the review changed

    def predict_proba(self, rows: Any) -> npt.NDArray[np.float32]:
        """Probabilities [n, K] of new rows of the kind that was fitted; columns in the order of `classes`."""
        return self.predictor.predict_proba(rows)

    def predict(self, rows: Any) -> npt.NDArray[np.str_]:
        """The most probable class of each new row, by name."""
        names: npt.NDArray[np.str_] = np.array(self.classes)[self.predict_proba(rows).argmax(axis=1)]
        return names

    @property
    def verdict(self) -> Verdict | None:
        """Whether the robust method helped: judged by right labels where some are known, else by held-out ones.

        None without plain training to compare with.
        """
        judged = self.held_out_gain if self.clean_gain is None else self.clean_gain
        return None if judged is None else judged.verdict

    def summary(self) -> dict[str, Any]:
        """All numbers as plain values, for JSON."""
        named = {"held_out": self.held_out_gain, "noise_corrected": self.corrected_gain, "clean": self.clean_gain}
        gains = {name: None if g is None else asdict(g) | {"verdict": g.verdict} for name, g in named.items()}
        return {
            "method": self.method,
            "replaced": self.replaced,
            "rows": len(self.held_out),
            "verdict": self.verdict,
            "held_out_accuracy": self.held_out_accuracy,
            "selected_checkpoint": self.selected_checkpoint,
            **gains,
            "labels": self.audit.summary(),
            **({} if self.retraining is None else {"retraining": self.retraining.summary()}),
        }

    def __repr__(self) -> str:
        g = self.held_out_gain if self.clean_gain is None else self.clean_gain
        compared = "not compared with plain training"
        if g is not None:
            interval = f"95 % interval {100 * g.low:+.1f} to {100 * g.high:+.1f}"
            compared = f"{self.verdict} ({100 * g.gain:+.1f} points against plain training, {interval})"
        return (
            f"<FitResult of {self.method} on {len(self.held_out)} rows: {compared}, "
            f"{100 * self.audit.noise_rate:.1f} % of the labels are wrong (estimate)>"
        )

    def _repr_html_(self) -> str:
        """For notebooks: what `print` says, and the most suspect rows."""
        return f"<pre>{escape(str(self))}</pre>{suspects_html(self.audit, content=self.content)}"

    def __str__(self) -> str:
        report, review = self.audit, self.audit.review()
        flagged = "None is flagged as wrong."
        if len(review.rows):
            precision = f"{100 * review.expected_precision:.0f} %"
            between = f"{100 * review.expected_precision_low:.0f} to {100 * review.expected_precision_high:.0f} %"
            flagged = f"{len(review.rows)} are flagged as wrong; expect {precision} of them to be ({between})."
        lines = [
            report.headline,
            flagged,
            *report.warnings,
        ]
        if self.replaced == AUTO:
            lines.append(f"{self.method} was chosen, by the held-out rows that choose settings.")
        elif self.replaced is not None:
            lines.append(
                f"{self.method} takes the place of {self.replaced}: "
                "it is clearly better on the held-out rows that choose settings."
            )
        if self.verdict is None:
            lines.append(
                f"Accuracy of {self.method} on held-out labels as given: {100 * self.held_out_accuracy:.1f} %. "
                "Without plain training (--no-baseline) nothing says whether it helped."
            )
        else:
            lines.append(
                f"Accuracy of {self.method} and of plain training{' at the same cost' if self.same_cost else ''}:"
            )
            for where, g in (
                ("held-out labels as given", self.held_out_gain),
                ("corrected for wrong held-out labels (estimate)", self.corrected_gain),
                ("right labels", self.clean_gain),
            ):
                if g is not None:
                    interval = f"{100 * g.gain:+.1f} points, 95 % interval {100 * g.low:+.1f} to {100 * g.high:+.1f}"
                    accuracies = f"{100 * g.robust:.1f} % and {100 * g.plain:.1f} % of {g.rows} rows"
                    lines.append(f"  {where}: {accuracies} ({interval})")
            if self.corrected_gain is None:
                lines.append("  The labels are too noisy to estimate the accuracy on right labels.")
            verdicts = {
                "helped": f"{self.method} helped.",
                "hurt": f"{self.method} hurt: use plain training, or look at the flagged labels.",
                "inconclusive": "Inconclusive: the 95 % interval includes 0. More held-out rows would narrow it.",
            }
            lines.append(verdicts[self.verdict])
        if self.selected_checkpoint is not None:
            stage, epoch = self.selected_checkpoint["stage"], self.selected_checkpoint["epoch"]
            lines.append(f"The weights are those of stage {stage!r}, epoch {epoch}: held-out labels prefer them.")
        if self.retraining is not None:
            lines.append(str(self.retraining))
        return "\n".join(lines)
