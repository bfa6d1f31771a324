"""The rows of a review as columns of numbers: filters, order, pairs of given and suggested label."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.audit import AuditReport
from pars.corrections import ReviewedRows
from pars.errors import UserError
from pars.reviewing.store import STATES

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
SORTS = ("quality", "pair", "row")
KEYS = ("given", "suggested", "state", "quality", "text", "row", "rows", "scope")
MOST_GROUPS = 200


@dataclass(frozen=True, eq=False)
class ReviewItems:
    """All rows of a data set, and which of them are on the list of suspects.

    given, suggested [n]; quality [n]: probability that the given label is right, NaN where there is none.
    choices, choice_probs [n, m]: the most probable classes. listed: rows of the list, most suspect first.
    """

    classes: tuple[str, ...]
    given: Rows
    suggested: Rows
    quality: npt.NDArray[np.float64]
    suggested_prob: npt.NDArray[np.float64]
    choices: Rows
    choice_probs: npt.NDArray[np.float64]
    listed: Rows
    why: tuple[str, ...]  # of the rows on the list, in its order
    ids: tuple[str, ...] | None = None
    checked: npt.NDArray[np.int8] | None = None

    def __len__(self) -> int:
        return len(self.given)

    def reviewed(self) -> ReviewedRows:
        return ReviewedRows(self.classes, self.given, self.suggested, self.quality, self.ids, self.checked)

    def id(self, row: int) -> str:
        return str(row) if self.ids is None else self.ids[row]

    def fingerprint(self) -> str:
        """Of rows and given labels: a review belongs to them."""
        digest = hashlib.blake2b(json.dumps(self.classes).encode(), digest_size=16)
        digest.update(np.ascontiguousarray(self.given, dtype="<i8").tobytes())
        return digest.hexdigest()

    def reason(self, row: int) -> str:
        at = np.flatnonzero(self.listed == row)
        return self.why[int(at[0])] if len(at) else ""


def items_of_report(
    report: AuditReport,
    ids: tuple[str, ...] | None = None,
    checked: npt.NDArray[np.int8] | None = None,
    rows: Rows | None = None,
) -> ReviewItems:
    """The items of an audit; the list is `rows`, by default those with `is_label_issue`."""
    listed = report.review().rows if rows is None else rows
    from pars.audit.report import explain_row  # `report.why` would explain every row

    return ReviewItems(
        tuple(report.classes),
        report.given.astype(np.int64),
        report.suggested.astype(np.int64),
        report.label_right_prob,
        report.suggested_prob,
        report.choices.astype(np.int64),
        report.choice_probs.astype(np.float64),
        listed.astype(np.int64),
        tuple(explain_row(report, int(row)) for row in listed),
        ids,
        checked,
    )


def parse_filter(text: str | None, n_classes: int, n: int) -> dict[str, Any]:
    """A filter from JSON, checked key by key; a UserError says what is wrong."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        raise UserError("the filter is not JSON") from None
    return check_filter(found, n_classes, n)


def check_filter(found: Any, n_classes: int, n: int) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise UserError("the filter is not an object")
    out: dict[str, Any] = {}
    for key, value in found.items():
        if key not in KEYS:
            raise UserError(f"unknown filter {key!r}, expected one of {', '.join(KEYS)}")
        if value is None or value == "":
            continue
        fine: Callable[[Any], bool] = {
            "given": lambda v: type(v) is int and 0 <= v < n_classes,
            "suggested": lambda v: type(v) is int and 0 <= v < n_classes,
            "state": lambda v: v in STATES,
            "quality": lambda v: isinstance(v, list) and len(v) == 2 and all(type(q) in (int, float) for q in v),
            "text": lambda v: isinstance(v, str) and len(v) <= 1000,
            "row": lambda v: type(v) is int and 0 <= v < n,
            "scope": lambda v: v in ("list", "all"),
        }.get(key, lambda v: False)
        if not fine(value):
            raise UserError(f"filter {key}: {str(value)[:80]!r} is not possible here")
        out[key] = value
    return out


def matching(
    items: ReviewItems,
    state: npt.NDArray[np.int8],
    chosen: Mapping[str, Any],
    text: Callable[[int], str],
    hidden: Rows | None = None,
) -> Rows:
    """The rows that pass a filter: of the list in its order, of all rows by number.

    text: the words of a row. hidden: rows that must not be shown, as a blind sample asks for them.
    """
    rows = np.flatnonzero(items.given >= 0) if chosen.get("scope") == "all" else items.listed
    keep: Mask = np.ones(len(rows), dtype=bool)
    if hidden is not None and len(hidden):
        keep &= ~np.isin(rows, hidden)
    if "given" in chosen:
        keep &= items.given[rows] == chosen["given"]
    if "suggested" in chosen:
        keep &= items.suggested[rows] == chosen["suggested"]
    if "state" in chosen:
        keep &= state[rows] == STATES.index(chosen["state"])
    if "quality" in chosen:
        low, high = chosen["quality"]
        keep &= (items.quality[rows] >= low) & (items.quality[rows] <= high)
    if "row" in chosen:
        keep &= rows == chosen["row"]
    rows = rows[keep]
    if "text" in chosen:
        wanted = chosen["text"].casefold()
        rows = rows[[wanted in text(int(row)).casefold() for row in rows]] if len(rows) else rows
    return rows


def pair_groups(items: ReviewItems, state: npt.NDArray[np.int8], rows: Rows) -> list[dict[str, int | float]]:
    """Pairs (given, suggested) among rows with their counts, those with most expected wrong labels first."""
    if not len(rows):
        return []
    k = len(items.classes)
    codes, where = np.unique(items.given[rows] * k + items.suggested[rows], return_inverse=True)
    counts = np.bincount(where)
    wrong = np.bincount(where, weights=1 - np.nan_to_num(items.quality[rows], nan=1.0))
    decided = np.bincount(where, weights=(state[rows] != 0) & (state[rows] != STATES.index("skip")))
    order = np.lexsort((codes, -wrong))[:MOST_GROUPS]
    return [
        {"given": int(codes[g] // k), "suggested": int(codes[g] % k), "n": int(counts[g]), "decided": int(decided[g]),
         "expected_wrong": round(float(wrong[g]), 2)}
        for g in order
    ]  # fmt: skip


def ordered(items: ReviewItems, rows: Rows, sort: str) -> Rows:
    """Rows by quality (lowest first), by pair (worst first, then quality) or by number."""
    if sort not in SORTS:
        raise UserError(f"sort is {sort[:20]!r}, expected one of {', '.join(SORTS)}")
    if sort == "row" or not len(rows):
        return np.sort(rows)
    quality = np.nan_to_num(items.quality[rows], nan=2.0)
    if sort == "quality":
        return rows[np.lexsort((rows, quality))]
    k = len(items.classes)
    codes, where = np.unique(items.given[rows] * k + items.suggested[rows], return_inverse=True)
    wrong = np.bincount(where, weights=1 - np.minimum(quality, 1))
    place = np.empty(len(codes), dtype=np.int64)
    place[np.lexsort((codes, -wrong))] = np.arange(len(codes))
    return rows[np.lexsort((rows, quality, place[where]))]
