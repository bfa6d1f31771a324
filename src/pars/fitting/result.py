"""The result of a fit: what was trained, which labels are wrong, whether it helped; in numbers and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.audit import AuditReport
from pars.fitting.gain import Gain, Verdict
from pars.fitting.prediction import Predictor


@dataclass(frozen=True, eq=False)
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
    plain_predictions: npt.NDArray[np.int64]  # the same of plain training
    held_out_gain: Gain  # measured on held-out given labels
    corrected_gain: Gain | None  # the estimate for right labels; None where the labels are too noisy
    clean_gain: Gain | None  # measured on right labels, where some are known
    selected_checkpoint: dict[str, Any] | None  # stage and epoch of the weights, where they are not the last
    out: Path | None = None

    def predict_proba(self, rows: Any) -> npt.NDArray[np.float32]:
        """Probabilities [n, K] of new rows of the kind that was fitted; columns in the order of `classes`."""
        return self.predictor.predict_proba(rows)

    def predict(self, rows: Any) -> npt.NDArray[np.str_]:
        """The most probable class of each new row, by name."""
        names: npt.NDArray[np.str_] = np.array(self.classes)[self.predict_proba(rows).argmax(axis=1)]
        return names

    @property
    def verdict(self) -> Verdict:
        """Whether the robust method helped: judged by right labels where some are known, else by held-out ones."""
        return (self.held_out_gain if self.clean_gain is None else self.clean_gain).verdict

    def summary(self) -> dict[str, Any]:
        """All numbers as plain values, for JSON."""
        named = {"held_out": self.held_out_gain, "noise_corrected": self.corrected_gain, "clean": self.clean_gain}
        gains = {name: None if g is None else asdict(g) | {"verdict": g.verdict} for name, g in named.items()}
        return {
            "method": self.method,
            "rows": len(self.held_out),
            "verdict": self.verdict,
            "selected_checkpoint": self.selected_checkpoint,
            **gains,
            "labels": self.audit.summary(),
        }

    def __str__(self) -> str:
        lines = [*self._labels_in_words(), *self._gain_in_words()]
        if self.selected_checkpoint is not None:
            stage, epoch = self.selected_checkpoint["stage"], self.selected_checkpoint["epoch"]
            lines.append(f"The weights are those of stage {stage!r}, epoch {epoch}: held-out labels prefer them.")
        return "\n".join(lines)

    def _labels_in_words(self) -> list[str]:
        report, review = self.audit, self.audit.review()
        low, high = 100 * report.noise_rate_low, 100 * report.noise_rate_high
        flagged = "None is flagged as wrong."
        if len(review):
            flagged = (
                f"{len(review)} are flagged as wrong; expect {100 * review.expected_precision:.0f} % of them to be."
            )
        return [
            f"Estimated noise rate: {100 * report.noise_rate:.1f} % of {report.n_labeled} labels "
            f"(plausible range {low:.1f} to {high:.1f} %).",
            flagged,
            *report.warnings,
        ]

    def _gain_in_words(self) -> list[str]:
        rows = [("held-out labels as given", self.held_out_gain)]
        if self.corrected_gain is not None:
            rows.append(("corrected for wrong held-out labels (estimate)", self.corrected_gain))
        if self.clean_gain is not None:
            rows.append(("right labels", self.clean_gain))
        lines = [f"Accuracy of {self.method} and of plain training at the same cost:"]
        lines += [f"  {where}: {_in_words(g)}" for where, g in rows]
        if self.corrected_gain is None:
            lines.append("  The labels are too noisy to estimate the accuracy on right labels.")
        return [*lines, self._verdict_in_words()]

    def _verdict_in_words(self) -> str:
        return {
            "helped": f"{self.method} helped.",
            "hurt": f"{self.method} hurt: use plain training, or look at the flagged labels.",
            "inconclusive": "Inconclusive: the 95 % interval includes 0. More held-out rows would narrow it.",
        }[self.verdict]


def _in_words(g: Gain) -> str:
    interval = f"{100 * g.gain:+.1f} points, 95 % interval {100 * g.low:+.1f} to {100 * g.high:+.1f}"
    return f"{100 * g.robust:.1f} % and {100 * g.plain:.1f} % of {g.rows} rows ({interval})"
