"""Could held-out given labels have told which method to take? What choosing by them would have cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pars.autoconfig.methods import TRIED
from pars.bench.ledger import Line
from pars.bench.summary import REFERENCE, results_of
from pars.bench.tables import Table

FEW = (*TRIED, "logistic-regression")
"""What `method="auto"` chooses from."""
Results = Mapping[str, Mapping[int, tuple[float, float]]]
"""Accuracy on held-out given labels and on the test set, by row and seed."""


@dataclass(frozen=True)
class Choice:
    """A column: its best row, and the points of accuracy that are lost by taking another."""

    best: str  # the row with the highest mean over seeds: known from the test set alone
    accuracy: float  # its mean
    always: float  # lost by always taking the reference
    few: float  # lost by choosing from FEW
    every: float  # lost by choosing from all rows
    chosen: tuple[str, ...]  # from FEW, seed by seed


def choices(lines: Sequence[Line], table: Table, scale: str) -> dict[str, Choice]:
    """By column, at the epoch that held-out labels prefer, over the seeds that all rows of the column have.

    Columns in which one of FEW was not run are left out. Of rows that predict equally many held-out labels the first of
    the table is chosen.
    """
    out = {}
    for column in table.columns:
        found = _results(lines, table, scale, column)
        seeds = sorted(set.intersection(*(set(by_seed) for by_seed in found.values()))) if found else []
        if not seeds or not set(FEW) <= set(found):
            continue
        means = {row: fmean(found[row][seed][1] for seed in seeds) for row in found}
        best = max(means, key=means.__getitem__)
        every = [_preferred(found, list(found), seed) for seed in seeds]
        few = [_preferred(found, FEW, seed) for seed in seeds]
        out[column] = Choice(
            best=best,
            accuracy=means[best],
            always=means[best] - means[REFERENCE],
            few=means[best] - _mean_of(found, few, seeds),
            every=means[best] - _mean_of(found, every, seeds),
            chosen=tuple(few),
        )
    return out


def _results(lines: Sequence[Line], table: Table, scale: str, column: str) -> Results:
    """Of a column's rows in the order of the table; failed cells have no numbers."""
    found: dict[str, dict[int, tuple[float, float]]] = {}
    for line in results_of(lines, scale):
        numbers = line.get("selected", {})
        if line["column"] == column and "accuracy" in numbers:
            found.setdefault(line["row"], {})[line["seed"]] = (numbers["holdout"], numbers["accuracy"])
    return {row: found[row] for row in table.rows if row in found}


def _preferred(found: Results, rows: Sequence[str], seed: int) -> str:
    return max(rows, key=lambda row: found[row][seed][0])


def _mean_of(found: Results, chosen: Sequence[str], seeds: Sequence[int]) -> float:
    return fmean(found[row][seed][1] for row, seed in zip(chosen, seeds, strict=True))
