"""Figures of a ledger as SVG: accuracy over the noise rate, and the paper's Figures 2 to 4 where their cells ran."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from pars.bench.ledger import Line
from pars.bench.record import BINS
from pars.bench.summary import TableSummary, results_of, summarize
from pars.bench.tables import COLUMNS, TABLES
from pars.report.figure import BLUE, VERMILLION, curve_style, legend_outside, style

SHOWN = 8  # curves of a figure: the best rows, and those that every figure has
ALWAYS = ("ce", "warmup", "pars")


def figures(lines: Sequence[Line], scale: str) -> Iterator[tuple[str, str]]:
    """Titles and SVG texts of the figures that the ledger has data for."""
    for data, title in (("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")):
        if figure := _over_rate(summarize(lines, TABLES["table1"], scale), data):
            yield f"{title}: accuracy over the rate of symmetric noise", _svg(figure)
    cells = {
        (line["row"], line["column"]): line
        for line in results_of(lines, scale)
        if line["status"] == "ok" and line["seed"] == 0
    }
    for key, draw in (("figure2", _confidences), ("figure3", _curves)):
        table = TABLES[key]
        found = {row: cells[row, column] for column in table.columns for row in table.rows if (row, column) in cells}
        if found and (figure := draw(found)):
            yield f"{table.title} ({COLUMNS[table.columns[0]].title})", _svg(figure)
    if figure := _thresholds(summarize(lines, TABLES["figure4"], scale)):
        yield f"{TABLES['figure4'].title} ({COLUMNS[TABLES['figure4'].columns[0]].title})", _svg(figure)


def _over_rate(found: TableSummary, data: str) -> Figure | None:
    columns = [key for key in found.table.columns if key.startswith(f"{data}-sym-")]
    means: dict[str, dict[float, float]] = {}
    for row in found.table.rows:
        cells = {100 * COLUMNS[key].noise.rate: found.cells[row, key].mean for key in columns}
        known = {rate: mean for rate, mean in cells.items() if mean is not None}
        if len(known) > 1:
            means[row] = known
    if not means:
        return None
    best = sorted(means, key=lambda row: -fmean(means[row].values()))
    rows = list(dict.fromkeys([*(row for row in ALWAYS if row in means), *best]))[:SHOWN]
    figure, axes = _axes("nominal noise rate (%)", "test accuracy (%)")
    with style():
        for index, row in enumerate(rows):
            axes.plot(list(means[row]), list(means[row].values()), marker="o", label=row, **curve_style(index))
        legend_outside(figure, axes.get_legend_handles_labels()[0])
    return figure


def _confidences(found: dict[str, Line]) -> Figure | None:
    """Histograms of the confidence of rows with right and with wrong labels, one panel for each row of the table."""
    found = {row: line for row, line in found.items() if "confidence" in line}
    if not found:
        return None
    with style():
        figure = Figure(figsize=(3.2 * len(found) + 0.6, 3.2), layout="constrained")
        panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
        left = [index / BINS for index in range(BINS)]
        for axes, (row, line) in zip(panels, found.items(), strict=True):
            for name, color in (("right", BLUE), ("wrong", VERMILLION)):
                axes.bar(
                    left,
                    line["confidence"][name],
                    1 / BINS,
                    align="edge",
                    color=color,
                    alpha=0.6,
                    label=f"label {name}",
                )
            axes.set_title(row)
            axes.set_xlabel("confidence")
        panels[0].set_ylabel("training rows")
        legend_outside(figure, panels[0].get_legend_handles_labels()[0])
    return figure


def _curves(found: dict[str, Line]) -> Figure | None:
    """Test accuracy over the share of the budget."""
    figure, axes = _axes("TFLOP of training", "test accuracy (%)")
    drawn = False
    with style():
        for index, (row, line) in enumerate(found.items()):
            points = [(flop / 1e12, test) for _, flop, test, _ in line.get("curve", []) if test is not None]
            if points:
                drawn = True
                axes.plot(*zip(*points, strict=True), label=row, **curve_style(index))
        if drawn:
            legend_outside(figure, axes.get_legend_handles_labels()[0])
    return figure if drawn else None


def _thresholds(found: TableSummary) -> Figure | None:
    (column,) = found.table.columns
    points = {
        float(row.rpartition("-")[2]): mean
        for row in found.table.rows
        if (mean := found.cells[row, column].mean) is not None
    }
    if not points:
        return None
    figure, axes = _axes("confidence threshold τ", "test accuracy (%)")
    with style():
        axes.plot(list(points), list(points.values()), marker="o", **curve_style(0))
    return figure


def _axes(x: str, y: str) -> tuple[Figure, Any]:
    with style():
        figure = Figure(figsize=(7.2, 4.0), layout="constrained")
        axes = figure.subplots()
        axes.set_xlabel(x)
        axes.set_ylabel(y)
    return figure, axes


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    with style():
        figure.savefig(text, format="svg", metadata={"Date": None})
    return re.sub(r"^.*?(?=<svg)", "", text.getvalue(), flags=re.DOTALL)
