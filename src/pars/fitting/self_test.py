"""The self-test: labels flipped on purpose, how many of them are found, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pars import seeds
from pars.data import Labels, Table
from pars.encode import EncoderName
from pars.engine import resend_interrupt
from pars.errors import UserError
from pars.fitting.pipeline import Log, fit_table
from pars.fitting.result import FitResult
from pars.fitting.rows import read_rows
from pars.fitting.settings import FitSettings, path_of

MOST_DEVIATIONS = 2.0  # above the expected number of flips that made a wrong label right


def flip_labels(labels: Labels, n_classes: int, share: float, seed: int) -> Labels:
    """The labels with a share of the given ones moved to another class at random; -1 stays.

    >>> before = np.array([0, 1, 2, -1] * 25)
    >>> after = flip_labels(before, 3, 0.2, seed=0)
    >>> int((after != before).sum()), bool((after[before < 0] == -1).all())
    (15, True)
    """
    if not isinstance(share, Real) or not 0 < share < 1:
        raise UserError(f"the share to flip is {share!r}, expected a number between 0 and 1")
    if n_classes < 2:
        raise UserError("labels of one class cannot be flipped to another, expected at least two classes")
    rng = seeds.generator(seed, "selftest")
    given = np.flatnonzero(labels >= 0)
    chosen = rng.choice(given, round(share * len(given)), replace=False)
    if not len(chosen):
        raise UserError(f"{share:g} of {len(given)} labels is less than one: nothing would be flipped")
    out = labels.copy()
    out[chosen] = (out[chosen] + rng.integers(1, n_classes, len(chosen))) % n_classes
    return out


@dataclass(frozen=True)
class SelftestResult:
    """What became of the flipped labels; `print(result)` says it in words. All but the counts are shares in 0..1."""

    method: str
    flipped: int
    flagged: int
    recall: float  # of the flipped labels, those flagged
    precision: float  # of the flagged labels, those wrong: flipped now, or estimated to have been wrong before
    precision_low: float  # 95 % interval
    precision_high: float
    auroc: float  # how often a wrong label is ranked before a right one
    auroc_low: float  # 95 % interval
    auroc_high: float
    wrong_before: float  # of the labels that were not flipped: estimated by the audit
    restored: float  # of the flipped and flagged labels, those whose suggestion is the original label
    robust: float  # accuracy on held-out labels as they were before
    plain: float

    def summary(self) -> dict[str, Any]:
        """All numbers as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.flipped} labels were flipped to a random other class; {self.flagged} are flagged as wrong.",
                f"  recall: {100 * self.recall:.1f} % of the flipped labels are flagged",
                f"  precision: {100 * self.precision:.1f} % of the flagged labels are wrong "
                f"(95 % interval {100 * self.precision_low:.1f} to {100 * self.precision_high:.1f})",
                f"  AUROC: {self.auroc:.3f} (95 % interval {self.auroc_low:.3f} to {self.auroc_high:.3f})",
                f"  An estimated {100 * self.wrong_before:.1f} % of the labels were wrong before; "
                "precision and AUROC are corrected for them.",
                f"  suggestions: {100 * self.restored:.1f} % of the labels found get their original label back",
                "  accuracy on held-out labels before flipping: "
                f"{self.method} {100 * self.robust:.1f} %, plain training {100 * self.plain:.1f} %",
            ]
        )


def selftest(
    rows: Any,
    labels: Any = None,
    *,
    flip: float = 0.1,
    method: str = "pars",
    out: str | Path | None = None,
    encoder: EncoderName | None = None,
    encoded_views: int = 0,
    unlabeled: str | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: bool = False,
    **columns: Any,
) -> SelftestResult:
    """Flip a share of the labels to a random other class, fit, and return how many of them were found.

    Arguments are those of `pars.fit`.
    """
    folder = path_of(out, "out")
    table = read_rows(rows, labels, encoder=encoder, unlabeled=unlabeled, **columns)
    reading = {"label": labels if isinstance(labels, str) else None, "unlabeled": unlabeled, **columns}
    settings = FitSettings(
        method=method, encoder=encoder, encoded_views=encoded_views, seed=seed, device=device, reading=reading
    )
    with torch.random.fork_rng(), resend_interrupt():
        return selftest_table(table, flip, settings, out=folder, progress=progress)


def selftest_table(
    table: Table,
    flip: float,
    settings: FitSettings,
    *,
    out: Path | None = None,
    progress: bool = False,
    log: Log | None = None,
) -> SelftestResult:
    """The self-test of a table that was read and checked (`read_rows`)."""
    flipped = flip_labels(table.labels, len(table.classes), flip, settings.seed)
    result = fit_table(
        replace(table, labels=flipped), settings, true_labels=table.labels, out=out, progress=progress, log=log
    )
    return judge(result, table.labels, flipped)


def judge(result: FitResult, before: Labels, after: Labels) -> SelftestResult:
    """Compare the audit of flipped labels with what was flipped."""
    given, moved, report = before >= 0, before != after, result.audit
    flagged = report.is_label_issue & given
    found = moved & flagged
    held_out, plain = result.held_out & given, result.plain_predictions
    assert plain is not None  # the self-test compares
    right, k = report.label_right_prob[given], len(report.classes)
    rows = Rows(right, moved[given], flagged[given], report.noise_rate, k)
    measured = rows.measure(report.noise_rate)
    draws = np.array(list(_resampled(rows, report.noise_rate_low, report.noise_rate_high)))
    ends = np.clip(np.nanpercentile(draws, (2.5, 97.5), axis=0), 0, 1)
    return SelftestResult(
        method=result.method,
        flipped=int(moved.sum()),
        flagged=int(flagged.sum()),
        recall=_share(found, moved),
        precision=measured.precision,
        precision_low=float(min(ends[0, 1], measured.precision)),
        precision_high=float(max(ends[1, 1], measured.precision)),
        auroc=measured.auroc,
        auroc_low=float(min(ends[0, 0], measured.auroc)),
        auroc_high=float(max(ends[1, 0], measured.auroc)),
        wrong_before=measured.wrong_before,
        restored=_share(found & (report.suggested == before), found),
        robust=_share(held_out & (result.predictions == before), held_out),
        plain=_share(held_out & (plain == before), held_out),
    )


@dataclass(frozen=True)
class Measured:
    """Quality of an audit on all wrong labels, those of before the flips included."""

    auroc: float
    precision: float
    wrong_before: float


@dataclass(frozen=True, eq=False)
class Rows:
    """What an audit says of n labels, and which of them had been flipped. Shapes: [n] each."""

    right: npt.NDArray[np.float64]  # the audit's probability that the label is right
    moved: npt.NDArray[np.bool_]
    flagged: npt.NDArray[np.bool_]
    noise_rate: float  # as the audit estimates it
    n_classes: int

    def measure(self, noise_rate: float, rng: np.random.Generator | None = None) -> Measured:
        """Return AUROC and precision of the audit if `noise_rate` of the labels are wrong now.

        With `rng`, which labels are wrong is drawn; else each counts with its probability.

        A share ε of the labels was wrong before: ε of those that were not flipped are wrong, and a = ε/(K-1) of those
        flipped are right by chance. What the audit sees in a row tells which: it had assumed that all labels are wrong
        equally often, so its odds are multiplied by those known of the row over those that it assumed. But no more
        flips count as right by chance than chance has in store: else an audit that believes wrong labels would be
        excused from finding them.

        >>> right, moved = np.array([0.9, 0.8, 0.9, 0.7, 0.6, 0.2]), np.arange(6) >= 4
        >>> Rows(right, moved, right < 0.65, 2 / 6, 3).measure(2 / 6)      # nothing was wrong before
        Measured(auroc=1.0, precision=1.0, wrong_before=0.0)
        """
        share, flips = float(self.moved.mean()), int(self.moved.sum())
        before = (noise_rate - share) / max(1 - share - share / (self.n_classes - 1), 1e-9)
        # Beyond this, flipped and other labels would be nearly the same mixture.
        before = float(np.clip(before, 0, 0.5 * (1 - 1 / self.n_classes)))
        lucky = before / (self.n_classes - 1)
        known = _log_odds(np.where(self.moved, lucky, 1 - before)) - _log_odds(np.array(1 - self.noise_rate))
        log_odds = _log_odds(self.right) + known
        most = flips * lucky + MOST_DEVIATIONS * float(np.sqrt(flips * lucky * (1 - lucky)))
        of_flips = log_odds[self.moved]
        low, high = -200.0, 0.0  # what they are moved by
        for _ in range(60 if _logistic(of_flips).sum() > most else 0):
            middle = (low + high) / 2
            low, high = (low, middle) if _logistic(of_flips + middle).sum() > most else (middle, high)
            log_odds[self.moved] = of_flips + low
        right = np.where(self.moved, 0.0, 1.0) if before == 0 else _logistic(log_odds)
        if rng is not None:
            right = (rng.random(len(right)) < right).astype(np.float64)
        precision = float((1 - right)[self.flagged].mean()) if self.flagged.any() else float("nan")
        return Measured(auroc(1 - self.right, 1 - right), precision, before)


def _log_odds(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    p = np.clip(p, 1e-12, 1 - 1e-12)
    out: npt.NDArray[np.float64] = np.log(p) - np.log1p(-p)
    return out


def _logistic(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    out: npt.NDArray[np.float64] = 1 / (1 + np.exp(-x))
    return out


def _resampled(rows: Rows, low: float, high: float, draws: int = 200) -> Iterator[tuple[float, float]]:
    """Yield AUROC and precision of rows drawn with replacement; the noise rate is drawn from its plausible range, and
    which labels are wrong from their probabilities."""
    rng, n = seeds.generator(0, "selftest/interval"), len(rows.right)
    for _ in range(draws):
        some = rng.choice(n, n)
        if rows.moved[some].any() and not rows.moved[some].all():
            part = replace(rows, right=rows.right[some], moved=rows.moved[some], flagged=rows.flagged[some])
            found = part.measure(rng.uniform(low, high), rng)
            yield found.auroc, found.precision


def _share(part: npt.NDArray[np.bool_], whole: npt.NDArray[np.bool_]) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else float("nan")


def auroc(scores: npt.NDArray[np.float64], positive: npt.NDArray[np.float64]) -> float:
    """How often a positive has the higher score; a tie is half. positive: probabilities [n] of being one.

    >>> auroc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([0.0, 1.0, 0.0, 1.0]))
    0.875
    """
    _, place = np.unique(scores, return_inverse=True)
    positives, others = np.bincount(place, positive), np.bincount(place, 1 - positive)
    below = others.cumsum() - others / 2
    pairs = float(positives.sum() * others.sum())
    return float((positives * below).sum() / pairs) if pairs > 0 else float("nan")
