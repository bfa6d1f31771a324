"""What decisions say about the labels: shares with 95 % intervals, and the three numbers of a blind sample."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pars import seeds

Z = 1.959964
DRAWS = 20_000
STOP_AFTER, STOP_BELOW = 50, 0.10  # decisions, and the share of wrong labels among them


@dataclass(frozen=True)
class Share:
    """A share with its 95 % interval, from `count` of `of`."""

    value: float | None
    low: float
    high: float
    count: int
    of: int


def wilson(count: int, of: int) -> Share:
    """The share count/of with Wilson's interval.

    >>> share = wilson(0, 50)
    >>> share.value, share.low, round(share.high, 3)
    (0.0, 0.0, 0.071)
    >>> wilson(0, 0)
    Share(value=None, low=0.0, high=1.0, count=0, of=0)
    """
    if not of:
        return Share(None, 0.0, 1.0, 0, 0)
    p, z2 = count / of, Z * Z
    middle = (p + z2 / (2 * of)) / (1 + z2 / of)
    half = Z * math.sqrt(p * (1 - p) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    low = 0.0 if count == 0 else max(0.0, middle - half)
    return Share(p, low, 1.0 if count == of else min(1.0, middle + half), count, of)


def may_stop(wrong_of_last: list[bool]) -> bool:
    """Whether the last decisions found so few wrong labels that checking on is hardly worth it.

    >>> may_stop([False] * 50), may_stop([False] * 49), may_stop([True] + [False] * 49)
    (True, False, False)
    """
    last = wrong_of_last[:STOP_AFTER]
    return len(last) == STOP_AFTER and wilson(sum(last), len(last)).high < STOP_BELOW


@dataclass(frozen=True)
class SampleEstimate:
    """What a blind sample says.

    precision: of the rows on the list, those whose label is wrong. missed: of the wrong labels, those not on the list.
    noise_rate: of all labels, those that are wrong.
    """

    precision: Share
    missed: Share
    noise_rate: Share
    decided: int
    trusted: int  # rows drawn from all rows and labeled: a small test set

    def summary(self) -> dict[str, Any]:
        return asdict(self)


def estimate_from_sample(
    wrong_in: int, decided_in: int, rows_in: int, wrong_out: int, decided_out: int, rows_out: int, trusted: int = 0
) -> SampleEstimate:
    """The three numbers from blind decisions about random rows on the list ("in") and off it ("out").

    rows_in, rows_out: how many rows there are of each. The list is a stratum of its own: its rows are drawn more often
    than others, and that is undone here. Intervals are central 95 % intervals of Jeffreys' posterior of both error
    rates, narrowed where a large part of a stratum was checked.

    >>> found = estimate_from_sample(45, 50, 100, 5, 100, 900)
    >>> round(found.noise_rate.value, 3), round(found.missed.value, 3)     # 90 and 45 wrong labels
    (0.135, 0.333)
    """
    rng = seeds.generator(0, "review/sample")
    rates_in = _posterior(rng, wrong_in, decided_in, rows_in)
    rates_out = _posterior(rng, wrong_out, decided_out, rows_out)
    p_in = wrong_in / decided_in if decided_in else 0.0
    p_out = wrong_out / decided_out if decided_out else 0.0
    found, lost = rows_in * p_in, rows_out * p_out
    drawn_found, drawn_lost = rows_in * rates_in, rows_out * rates_out
    total = max(1, rows_in + rows_out)
    known_in, known_out = decided_in > 0 or not rows_in, decided_out > 0 or not rows_out
    known = known_in and known_out
    missed = lost / (found + lost) if known and found + lost > 0 else None
    drawn_missed = drawn_lost / np.maximum(drawn_found + drawn_lost, 1e-12)
    decided, wrong = decided_in + decided_out, wrong_in + wrong_out
    rate, drawn_rate = (found + lost) / total, (drawn_found + drawn_lost) / total
    return SampleEstimate(
        precision=_share(p_in if decided_in else None, rates_in, wrong_in, decided_in),
        missed=_share(missed, drawn_missed, wrong_out, wrong),
        noise_rate=_share(rate if known else None, drawn_rate, wrong, decided),
        decided=decided,
        trusted=trusted,
    )


def _posterior(rng: np.random.Generator, wrong: int, decided: int, rows: int) -> npt.NDArray[np.float64]:
    """Draws of the error rate of all rows of a stratum: what was checked is known, the others follow the posterior."""
    draws = rng.beta(wrong + 0.5, decided - wrong + 0.5, DRAWS)
    if not rows:
        return np.zeros(DRAWS)
    left = max(0, rows - decided)
    unchecked = rng.binomial(left, draws) if left else np.zeros(DRAWS)
    out: npt.NDArray[np.float64] = (wrong + unchecked) / rows
    return out


def _share(value: float | None, draws: npt.NDArray[np.float64], count: int, of: int) -> Share:
    if value is None:
        return Share(None, 0.0, 1.0, count, of)
    low, high = (float(q) for q in np.quantile(draws, (0.025, 0.975)))
    return Share(value, min(low, value), max(high, value), count, of)


def draw_blind_sample(
    labeled: npt.NDArray[np.int64], listed: npt.NDArray[np.int64], n: int, seed: int
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """n rows from all labeled ones, and n from the list, in one random order; and where each was drawn from.

    >>> rows, origin = draw_blind_sample(np.arange(100), np.arange(10), 4, seed=0)
    >>> len(rows) == len(set(rows.tolist())) == len(origin)
    True
    """
    rng = seeds.generator(seed, "review/blind")
    from_all = set(rng.choice(labeled, min(n, len(labeled)), replace=False).tolist())
    from_list = set(rng.choice(listed, min(n, len(listed)), replace=False).tolist())
    rows = rng.permutation(np.array(sorted(from_all | from_list), dtype=np.int64))
    names = {(True, True): "both", (True, False): "all", (False, True): "list"}
    return rows, [names[row in from_all, row in from_list] for row in rows.tolist()]
