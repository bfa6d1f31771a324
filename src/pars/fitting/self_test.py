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
from scipy.stats import rankdata

from pars import seeds
from pars.data import Labels, Table
from pars.encode import EncoderName
from pars.engine import resend_interrupt
from pars.errors import UserError
from pars.fitting.pipeline import Log, fit_table
from pars.fitting.result import FitResult
from pars.fitting.rows import read_rows
from pars.fitting.settings import FitSettings, path_of


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
    low, high = report.noise_rate_low, report.noise_rate_high
    measured = measure(
        1 - report.label_right_prob[given], moved[given], flagged[given], report.noise_rate, len(report.classes)
    )
    draws = np.array(list(_resampled(report.label_right_prob, given, moved, flagged, (low, high), len(report.classes))))
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
    """Quality of an audit on all wrong labels, from what it makes of the flipped ones."""

    auroc: float
    precision: float
    wrong_before: float


def measure(
    suspicion: npt.NDArray[np.float64],
    moved: npt.NDArray[np.bool_],
    flagged: npt.NDArray[np.bool_],
    noise_rate: float,
    n_classes: int,
) -> Measured:
    """Return AUROC and precision of an audit, corrected for labels that were wrong before the flips. Shapes: [n] each.

    A share ε of the labels was wrong before: of those that were not flipped ε are wrong, of those flipped
    a = ε/(K-1) are right by chance. Both follow from the audit's noise rate. So flipped against not flipped is a blend
    of wrong against right, and what it measures is solved for the latter:

    AUROC of flips = (1-a)(1-ε) A + ½ [(1-a) ε + a (1-ε)] + a ε (1-A)
    flagged flips = (1-a) R + a F,  flagged others = ε R + (1-ε) F   (R, F: share of wrong and of right labels flagged)

    >>> suspicion, moved = np.arange(10) / 10, np.arange(10) >= 8
    >>> measure(suspicion, moved, suspicion > 0.65, 0.2, 3)      # nothing was wrong before
    Measured(auroc=1.0, precision=0.6666666666666666, wrong_before=0.0)
    """
    share, flips, flags = float(moved.mean()), int(moved.sum()), int(flagged.sum())
    before = (noise_rate - share) / max(1 - share - share / (n_classes - 1), 1e-9)
    # Beyond this, flipped and other labels would be nearly the same mixture, and chance would be magnified.
    before = float(np.clip(before, 0, 0.5 * (1 - 1 / n_classes)))
    lucky = before / (n_classes - 1)
    blend = 0.5 * ((1 - lucky) * before + lucky * (1 - before)) + lucky * before
    ranked = float(np.clip((auroc(suspicion, moved) - blend) / (1 - lucky - before), 0, 1))
    of_flips, of_others = _share(moved & flagged, moved), _share(flagged & ~moved, ~moved)
    found = float(np.clip(((1 - before) * of_flips - lucky * of_others) / (1 - lucky - before), 0, 1))
    wrong = found * ((1 - lucky) * flips + before * (len(moved) - flips))
    return Measured(ranked, min(1.0, wrong / flags) if flags else float("nan"), before)


def _resampled(
    right: npt.NDArray[np.float64],
    given: npt.NDArray[np.bool_],
    moved: npt.NDArray[np.bool_],
    flagged: npt.NDArray[np.bool_],
    noise_rates: tuple[float, float],
    n_classes: int,
    draws: int = 200,
) -> Iterator[tuple[float, float]]:
    """Yield AUROC and precision of rows drawn with replacement, the noise rate drawn from its plausible range."""
    rng, rows = seeds.generator(0, "selftest/interval"), np.flatnonzero(given)
    for _ in range(draws):
        some = rng.choice(rows, len(rows))
        if moved[some].any() and not moved[some].all():
            found = measure(1 - right[some], moved[some], flagged[some], rng.uniform(*noise_rates), n_classes)
            yield found.auroc, found.precision


def _share(part: npt.NDArray[np.bool_], whole: npt.NDArray[np.bool_]) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else float("nan")


def auroc(scores: npt.NDArray[np.float64], positive: npt.NDArray[np.bool_]) -> float:
    """How often a positive has the higher score; a tie is half.

    >>> auroc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, True, False, True]))
    0.875
    """
    n = int(positive.sum())
    ranks = rankdata(scores)[positive].sum()
    return float((ranks - n * (n + 1) / 2) / (n * (len(scores) - n)))
