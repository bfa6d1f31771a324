"""Table rows to feature vectors, learned from the training rows and applied to any: numbers and categories."""

from __future__ import annotations

import json
import logging
import math
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.data.columns import Column, Columns, as_numbers, as_text, frame_columns, shown
from pars.errors import UserError
from pars.missing import NO_VALUE, is_missing

log = logging.getLogger(__name__)

MOSTLY = 0.9  # a column with so many numbers among its values is one of numbers, and the rest are mistakes
Block = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Number:
    """(x - mean) / std; a missing value becomes 0, the mean, and is flagged where training rows lack some too.

    low, high: smallest and largest value of the training rows; None where they are not known.
    """

    name: str
    mean: float
    std: float
    flag: bool
    low: float | None = None
    high: float | None = None

    @property
    def feature_names(self) -> list[str]:
        return [self.name, f"{self.name} is missing"][: 1 + self.flag]

    def encode(self, columns: Columns) -> Block:
        numbers, strange = as_numbers(columns[self.name])
        for row in strange[:1] or np.flatnonzero(np.isinf(numbers))[:1].tolist():
            raise UserError(f"{columns.where(row, self.name)} is {columns[self.name][row]!r}, expected a finite number")
        missing = np.isnan(numbers)
        scaled = np.where(missing, 0.0, (numbers - self.mean) / self.std)
        return np.stack([scaled, missing][: 1 + self.flag], axis=1)

    def unfamiliar(self, columns: Columns) -> dict[int, str]:
        """Rows whose value is further from the range of training rows than that is wide; with the reason."""
        if self.low is None or self.high is None:
            return {}
        numbers, width = as_numbers(columns[self.name])[0], (self.high - self.low) or abs(self.high) or 1.0
        far = np.flatnonzero((numbers < self.low - width) | (numbers > self.high + width)).tolist()
        return {row: f"is {numbers[row]:g}, training rows have {self.low:g} to {self.high:g}" for row in far}


@dataclass(frozen=True)
class Category:
    """One 0/1 feature for each kept category, one for all others, one for a missing value, where training has any.

    A category that training rows do not have counts as one of the others.
    """

    name: str
    kept: tuple[str, ...]
    other: bool
    flag: bool

    @property
    def feature_names(self) -> list[str]:
        named = [f"{self.name} = {category}" for category in self.kept]
        return named + [f"{self.name} is another"] * self.other + [f"{self.name} is missing"] * self.flag

    def encode(self, columns: Columns) -> Block:
        place = {category: at for at, category in enumerate(self.kept)}
        nowhere, width = -1, len(self.feature_names)
        other, missing = len(self.kept) if self.other else nowhere, width - 1 if self.flag else nowhere
        texts = _categories(columns, self.name)
        at = np.array([missing if text is None else place.get(text, other) for text in texts])
        block: Block = (at[:, None] == np.arange(width)).astype(np.float64)
        return block

    def unfamiliar(self, columns: Columns) -> dict[int, str]:
        """Rows with a category that no training row has; none where rare categories are joined to one."""
        if self.other:
            return {}
        texts = _categories(columns, self.name)
        return {
            row: f"is {text[:60]!r}, no training row is"
            for row, text in enumerate(texts)
            if text and text not in self.kept
        }


@dataclass(frozen=True)
class ColumnEncoder:
    """How rows become feature vectors [n, d]; a plain value that JSON can hold.

    left_out: columns that say nothing, with the reason.

    >>> pets = {"age": ["3", "5", "", "4"], "kind": ["cat", "dog", "cat", "dog"], "name": ["Tom", "Rex", "Kim", "Bo"]}
    >>> encoder = ColumnEncoder.fit(pets)
    >>> encoder.feature_names
    ['age', 'age is missing', 'kind = cat', 'kind = dog']
    >>> encoder.encode({"age": [4], "kind": ["eel"]}).tolist()
    [[0.0, 0.0, 0.0, 0.0]]
    >>> ColumnEncoder.from_json(encoder.to_json()) == encoder
    True
    """

    columns: tuple[Number | Category, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    @classmethod
    def fit(
        cls, rows: Any, *, categorical: Collection[str] = (), most: int = 30, may_be_empty: bool = False
    ) -> ColumnEncoder:
        """Learn from training rows, a frame or `Columns`; of no use without a single column, unless it may be empty.

        categorical: columns of codes that look like numbers. most: categories of one column that get a feature; rarer
        ones, and those with fewer rows than 1 % (at least 2, at most 5), are joined.
        """
        table = frame_columns(rows)
        for name in categorical:
            table[name]  # named even though it is not there?
        found: list[Number | Category] = []
        left_out = []
        for name in table:
            learned = (_category if name in categorical else _number)(table, name, most)
            if isinstance(learned, str):
                left_out.append((name, learned))
            else:
                found.append(learned)
        for name, reason in left_out:
            log.warning("%s: column %r is left out: %s", table.source, name, reason)
        if not found and not may_be_empty:
            reasons = "; ".join(f"{name!r}: {reason}" for name, reason in left_out) or "there are none"
            raise UserError(f"{table.source}: no column to learn from ({reasons})")
        return cls(tuple(found), tuple(left_out))

    @property
    def feature_names(self) -> list[str]:
        return [name for column in self.columns for name in column.feature_names]

    def encode(self, rows: Any) -> npt.NDArray[np.float32]:
        """Feature vectors [n, d] of a frame or of `Columns`; further columns are not looked at."""
        table = frame_columns(rows)
        absent = [column.name for column in self.columns if column.name not in table]
        if absent:
            raise UserError(f"{table.source}: no column {absent[0]!r}, which training rows had; found {shown(table)}")
        return np.concatenate([column.encode(table) for column in self.columns], axis=1).astype(np.float32)

    def unfamiliar(self, rows: Any) -> dict[int, str]:
        """Rows unlike any training row, with the place and the reason: a number far outside the training range, or
        nothing but categories that training rows do not have.

        >>> pets = {"age": [3, 5, 1, 4], "kind": ["cat", "dog", "cat", "dog"]}
        >>> ColumnEncoder.fit(pets).unfamiliar({"age": [4, 4000, 2], "kind": ["cat", "dog", "eel"]})
        {1: "column 'age' is 4000, training rows have 1 to 5", 2: "column 'kind' is 'eel', no training row is"}
        """
        table = frame_columns(rows)
        found: dict[int, str] = {}
        for column in self.columns:
            if isinstance(column, Number):
                found = {row: f"column {column.name!r} {why}" for row, why in column.unfamiliar(table).items()} | found
        kinds = [column for column in self.columns if isinstance(column, Category)]
        unseen = [column.unfamiliar(table) for column in kinds]
        for row in set.intersection(*map(set, unseen)) if unseen else ():
            found.setdefault(row, f"column {kinds[0].name!r} {unseen[0][row]}")
        return dict(sorted(found.items()))

    def to_json(self) -> str:
        columns = [{"kind": type(column).__name__.lower()} | asdict(column) for column in self.columns]
        return json.dumps({"columns": columns, "left_out": dict(self.left_out)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> ColumnEncoder:
        """A UserError where the text is not what `to_json` writes."""
        try:
            content = json.loads(text)
            columns = tuple(_column(entry) for entry in content["columns"])
            return cls(columns, tuple((str(name), str(why)) for name, why in content["left_out"].items()))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UserError(f"the description of the columns is damaged: {error!r}") from None


def _number(table: Columns, name: str, most: int) -> Number | Category | str:
    """What to do with a column that may be one of numbers, or why it is of no use."""
    numbers, strange = as_numbers(table[name])
    known = numbers[~np.isnan(numbers)]
    if np.isinf(known).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise UserError(f"{table.where(row, name)} is {table[name][row]!r}, expected a finite number")
    if strange and len(known) >= MOSTLY * (len(known) + len(strange)):
        raise UserError(
            f"{table.where(strange[0], name)} is {table[name][strange[0]]!r}, expected a number as in {len(known)} "
            f"other rows; mend it, leave it empty if it is not known, or name the column in categorical (pars fit: "
            f"--categorical {name})"
        )
    if strange:
        return _category(table, name, most)
    if not len(known):
        return "all values are missing"
    unit = math.ldexp(1.0, min(1023, math.frexp(float(np.abs(known).max()))[1]))  # first: the square of 1e300 is none
    mean, std = unit * float((known / unit).mean()), unit * float((known / unit).std())
    constant = std <= 1e-12 * max(1.0, abs(mean))
    if constant and len(known) == len(numbers):
        return "all values are the same"
    return Number(
        name,
        mean,
        1.0 if constant else std,
        flag=len(known) < len(numbers),
        low=float(known.min()),
        high=float(known.max()),
    )


def _category(table: Columns, name: str, most: int) -> Category | str:
    texts = _categories(table, name)
    counts = Counter(text for text in texts if text is not None)
    n_missing = len(texts) - counts.total()
    enough = max(2, min(5, len(texts) // 100))
    ranked = sorted(counts, key=lambda text: (-counts[text], text))
    kept = sorted(text for text in ranked[:most] if counts[text] >= enough)
    if not kept:
        is_date = ranked and all(map(_is_date, ranked[:100]))
        what = "dates or times" if is_date else "texts"
        advice = "make them numbers, such as days, to use them" if is_date else "a text or an identifier?"
        return f"{len(counts)} different {what}, none of them in {enough} rows; {advice}"
    if len(counts) == 1 and not n_missing:
        return "all values are the same"
    return Category(name, tuple(kept), other=len(kept) < len(counts), flag=n_missing > 0)


def _is_date(text: str) -> bool:
    """Whether a text is a date or a time as ISO 8601 and frames write it."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return re.fullmatch(r"(-?\d+ days?,? ?)?(\d{1,2}:\d\d(:\d\d(\.\d+)?)?)?", text) is not None  # a duration
    return True


def _categories(table: Columns, name: str) -> list[str | None]:
    """A column as categories, None where a value is missing."""
    return [_as_category(value, table, row, name) for row, value in enumerate(_listed(table[name]))]


def _listed(values: Column) -> list[object]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _as_category(value: object, table: Columns, row: int, name: str) -> str | None:
    if isinstance(value, list | dict | tuple | set | np.ndarray):
        raise UserError(f"{table.where(row, name)} holds a {type(value).__name__}, expected a number or a text")
    if is_missing(value):
        return None
    text = as_text(value)
    return None if text.lower() in NO_VALUE else text


def _column(entry: dict[str, Any]) -> Number | Category:
    name, flag = entry["name"], entry["flag"]
    if not isinstance(name, str) or not isinstance(flag, bool):
        raise TypeError(f"name {name!r}, flag {flag!r}")
    if entry["kind"] == "number":
        mean, std = float(entry["mean"]), float(entry["std"])
        if not (math.isfinite(mean) and math.isfinite(std) and std > 0):
            raise ValueError(f"{name}: mean {mean}, std {std}")
        ends = [None if (value := entry.get(key)) is None else float(value) for key in ("low", "high")]
        if any(value is not None and not math.isfinite(value) for value in ends):
            raise ValueError(f"{name}: range {ends}")
        return Number(name, mean, std, flag, *ends)
    if entry["kind"] != "category" or not isinstance(entry["other"], bool):
        raise ValueError(f"{name}: kind {entry['kind']!r}")
    return Category(name, tuple(str(category) for category in entry["kept"]), entry["other"], flag)
