"""The self-test: labels flipped on purpose, how many of them are found, and what they cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
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
from pars.fitting.pipeline import FitSettings, Log, fit_table
from pars.fitting.result import FitResult
from pars.fitting.rows import read_rows


def flip_labels(labels: Labels, n_classes: int, share: float, seed: int) -> Labels:
    """The labels with a share of the given ones moved to another class at random; -1 stays.

    >>> before = np.array([0, 1, 2, -1] * 25)
    >>> after = flip_labels(before, 3, 0.2, seed=0)
    >>> int((after != before).sum()), bool((after[before < 0] == -1).all())
    (15, True)
    """
    if not 0 < share < 1:
        raise UserError(f"the share to flip is {share}, expected a number between 0 and 1")
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
    precision: float  # of the flagged labels, those flipped: a lower bound, for labels may have been wrong before
    auroc: float  # how often a flipped label is ranked before one that was not
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
                f"  recall: {100 * self.recall:.1f} % of the flipped labels are flagged (AUROC {self.auroc:.3f})",
                f"  precision: at least {100 * self.precision:.1f} %; other flagged labels may have been wrong before",
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
    table = read_rows(rows, labels, encoder=encoder, unlabeled=unlabeled, **columns)
    reading = {"label": labels if isinstance(labels, str) else None, "unlabeled": unlabeled, **columns}
    settings = FitSettings(
        method=method, encoder=encoder, encoded_views=encoded_views, seed=seed, device=device, reading=reading
    )
    with torch.random.fork_rng(), resend_interrupt():
        return selftest_table(table, flip, settings, out=None if out is None else Path(out), progress=progress)


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
    return SelftestResult(
        method=result.method,
        flipped=int(moved.sum()),
        flagged=int(flagged.sum()),
        recall=_share(found, moved),
        precision=_share(found, flagged),
        auroc=auroc(1 - report.label_right_prob[given], moved[given]),
        restored=_share(found & (report.suggested == before), found),
        robust=_share(held_out & (result.predictions == before), held_out),
        plain=_share(held_out & (plain == before), held_out),
    )


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
