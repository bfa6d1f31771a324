"""Labels flipped on purpose: how many of them are found, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from pars import seeds
from pars.data import Labels
from pars.errors import UserError
from pars.proof.fit import Proof


def flipped(labels: Labels, n_classes: int, share: float, seed: int) -> Labels:
    """The labels with a share of the given ones moved to another class at random; -1 stays.

    >>> before = np.array([0, 1, 2, -1] * 25)
    >>> after = flipped(before, 3, 0.2, seed=0)
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
class Found:
    """What became of the flipped labels. All but the counts are shares."""

    flipped: int
    flagged: int
    recall: float  # of the flipped, those flagged
    precision: float  # of the flagged, those flipped: at least so many are wrong, for others may be wrong of themselves
    auroc: float  # how often a flipped label is ranked before one that was not
    restored: float  # of the flipped and flagged, those whose suggestion is what the label was
    robust: float  # accuracy on held-out labels as they were before
    plain: float

    def summary(self) -> dict[str, Any]:
        return dict(vars(self))


def judge(proof: Proof, before: Labels, after: Labels) -> Found:
    """Compare an audit of the flipped labels with what was flipped."""
    given, moved = before >= 0, before != after
    flagged, report = proof.report.is_label_issue & given, proof.report
    both = moved & flagged
    held = proof.held_out & given
    return Found(
        flipped=int(moved.sum()),
        flagged=int(flagged.sum()),
        recall=share(both, moved),
        precision=share(both, flagged),
        auroc=auroc(1 - report.label_right_prob[given], moved[given]),
        restored=share(both & (report.suggested == before), both),
        robust=share(held & (proof.robust == before), held),
        plain=share(held & (proof.plain == before), held),
    )


def share(part: npt.NDArray[np.bool_], whole: npt.NDArray[np.bool_]) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else float("nan")


def auroc(scores: npt.NDArray[np.float64], positive: npt.NDArray[np.bool_]) -> float:
    """How often a positive has the higher score; a tie is half.

    >>> auroc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, True, False, True]))
    0.875
    """
    n = int(positive.sum())
    ranks = rankdata(scores)[positive].sum()
    return float((ranks - n * (n + 1) / 2) / (n * (len(scores) - n)))
