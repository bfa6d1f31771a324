"""The ledger as tables of numbers: mean and spread over seeds, ranks, differences on equal seeds, their tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from pars.bench.ledger import Line, latest
from pars.bench.published import Published
from pars.bench.record import check_runnable
from pars.bench.scales import Cell
from pars.bench.tables import ROWS, Table

Number = Literal["selected", "last", "best"]
NUMBERS: dict[Number, str] = {
    "selected": "the epoch that held-out given labels prefer",
    "last": "the last epoch",
    "best": "the best epoch on the test set, as papers report",
}
Metric = Literal["accuracy", "balanced", "worst_class"]
REFERENCE = "pars"


@dataclass(frozen=True)
class CellSummary:
    """What is known of a row in a column."""

    values: Mapping[int, float]  # percent, by seed
    published: Published | None
    failed: str | None = None  # the error, where no seed has a result
    reason: str | None = None  # why it cannot be run at this scale

    @property
    def mean(self) -> float | None:
        return fmean(self.values.values()) if self.values else None

    @property
    def std(self) -> float | None:
        return stdev(self.values.values()) if len(self.values) > 1 else None


@dataclass(frozen=True)
class TableSummary:
    """A table at a scale, for one of the three numbers and one of the metrics."""

    table: Table
    scale: str
    cells: Mapping[tuple[str, str], CellSummary]  # by row and column

    @property
    def is_empty(self) -> bool:
        return not any(cell.values or cell.failed for cell in self.cells.values())

    def rank(self, row: str, column: str) -> int | None:
        """1 for the highest mean of the column; rows without a result have none."""
        own = self.cells[row, column].mean
        if own is None:
            return None
        means = [self.cells[other, column].mean for other in self.table.rows]
        return 1 + sum(mean is not None and mean > own for mean in means)

    def differences(self, row: str, other: str, column: str) -> list[float]:
        """Row minus other row, seed by seed, of the seeds that both have."""
        own, others = (self.cells[key, column].values for key in (row, other))
        return [own[seed] - others[seed] for seed in sorted(own.keys() & others.keys())]


def results_of(lines: Sequence[Line], scale: str) -> list[Line]:
    """The last line of every cell of a scale; trials of a search are no results."""
    return [line for line in latest(list(lines)).values() if line.get("scale") == scale and "trial" not in line]


def summarize(
    lines: Sequence[Line], table: Table, scale: str, number: Number = "selected", metric: Metric = "accuracy"
) -> TableSummary:
    """The numbers of a table. Of several runs of the same cell the last one in the ledger counts."""
    by_place: dict[tuple[str, str], list[Line]] = {}
    for line in results_of(lines, scale):
        by_place.setdefault((line["row"], line["column"]), []).append(line)
    cells = {}
    for row in table.rows:
        # A row that is read off another's runs is the epoch that held-out labels prefer, whatever number is asked for.
        taken = ROWS[row].taken_from
        for column in table.columns:
            found = by_place.get((taken or row, column), [])
            kind: str = "selected" if taken else number
            values = {line["seed"]: _value(line, kind, metric) for line in found if line["status"] == "ok"}
            known = {seed: value for seed, value in sorted(values.items()) if value is not None}
            errors = [line["error"] for line in found if line["status"] != "ok"]
            cells[row, column] = CellSummary(
                known,
                table.published(row, column),
                failed=errors[0] if errors and not known else None,
                reason=check_runnable(Cell(scale, column, row, 0)),
            )
    return TableSummary(table, scale, cells)


def _value(line: Line, number: str, metric: str) -> float | None:
    found = line.get(number, {}).get(metric)
    return None if found is None else float(found)


def cost(lines: Sequence[Line], table: Table, scale: str) -> dict[str, tuple[float | None, float, int]]:
    """By row: mean TFLOP of training (none without a network), mean core seconds, number of networks."""
    found: dict[str, list[Line]] = {}
    for line in results_of(lines, scale):
        if line["status"] == "ok" and line["column"] in table.columns:
            found.setdefault(line["row"], []).append(line)
    out = {}
    for row in table.rows:
        of_row = found.get(ROWS[row].taken_from or row)
        if of_row:
            flop = [line["flop"] for line in of_row if line["flop"] is not None]
            seconds = fmean(line["core_seconds"] for line in of_row)
            out[row] = (fmean(flop) / 1e12 if flop else None, seconds, of_row[0]["networks"])
    return out


def paired_t(differences: Sequence[float]) -> float | None:
    """p-value of a paired t-test, two-sided; none where it cannot be computed."""
    if len(differences) < 2:
        return None
    if len(set(differences)) == 1:
        return 1.0 if differences[0] == 0 else 0.0
    from scipy.stats import ttest_1samp

    p = float(ttest_1samp(differences, 0.0).pvalue)
    return p if math.isfinite(p) else None


def wilcoxon_p(differences: Sequence[float]) -> float | None:
    """p-value of Wilcoxon's signed-rank test, two-sided; none below five differences that are not 0."""
    different = [value for value in differences if value]
    if len(different) < 5:
        return None
    from scipy.stats import wilcoxon

    return float(wilcoxon(different).pvalue)
