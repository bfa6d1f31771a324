"""Methods at equal cost: the table, and accuracy over FLOP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.table import Table
from rich.text import Text

from pars.report.figure import CYCLE, NothingToPlot, per_cent, style, write
from pars.report.outcome import Epoch, by_stage
from pars.report.plots import DASHES, plain
from pars.report.text import decimal

PANELS = {"ema": "averaged weights", "raw": "last weights"}


def accuracy_over_flop(curves: Mapping[str, Sequence[Epoch]], path: Path, *, title: str) -> Figure:
    """Write accuracy over the FLOP spent, given by name as the lines of each run's metrics.jsonl."""
    return write(accuracy_over_flop_figure(curves, title=title), path)


def accuracy_over_flop_figure(curves: Mapping[str, Sequence[Epoch]], *, title: str) -> Figure:
    """A panel for averaged and one for last weights; dots where a stage ends and another begins."""
    seen = {key for lines in curves.values() for line in lines for key in line}
    split = "test" if "test" in seen else "holdout"
    if split not in seen:
        raise NothingToPlot("no run to compare has a test or held-out accuracy")
    with style():
        figure = Figure(figsize=(10.4, 4.4), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, (weights, words) in zip(panels, PANELS.items(), strict=True):
            for index, ((name, lines), color) in enumerate(zip(curves.items(), cycle(CYCLE), strict=False)):
                points = [(line["flop"] / 1e15, line[split][weights]) for line in lines if split in line]
                if not points:
                    continue
                look: dict[str, Any] = {"color": color, "linestyle": DASHES[index // len(CYCLE) % len(DASHES)]}
                axes.plot(*zip(*points, strict=True), label=plain(name), marker="o" if len(points) == 1 else "", **look)
                ends = [stage[-1] for stage in by_stage(lines)[:-1] if split in stage[-1]]
                axes.plot(
                    [end["flop"] / 1e15 for end in ends], [end[split][weights] for end in ends], "o", color=color, ms=5
                )
            axes.set_title(words)
            axes.set_xlabel("PFLOP")
            axes.set_xlim(left=0)
        per_cent(panels[0], "test accuracy" if split == "test" else "agreement with held-out labels")
        figure.suptitle(plain(title), fontsize=10.5)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)))
    return figure


def budget_table(rows: Sequence[Mapping[str, Any]], *, title: str) -> Table:
    """The rows of compare.json; of each column of accuracies the best is bold."""
    columns = {"last": "last", "ema": "EMA", "best": "best", "holdout": "held-out"}
    table = Table(title=title, title_justify="left", title_style="bold", box=None, caption_justify="left")
    table.add_column("method")
    for heading in ("lr", "epochs", "PFLOP", *columns.values()):
        table.add_column(heading, justify="right", no_wrap=True)
    shown = {key: [decimal(row.get(key), 2) for row in rows] for key in columns}
    highest = {key: max((cell for cell in cells if cell != "–"), key=float, default="") for key, cells in shown.items()}
    for index, row in enumerate(rows):
        cells = [Text(shown[key][index], "bold" if shown[key][index] == highest[key] else "") for key in columns]
        epochs = "diverged" if row.get("diverged") else str(row["epochs"]) + ("*" if "stopped" in row else "")
        flop = "–" if "flop" not in row else f"{row['flop'] / 1e15:.3g}"
        table.add_row(Text(str(row["method"])), f"{row['lr']:g}", epochs, flop, *cells)
    notes = [
        "last: the last epoch's weights; EMA: their average; best: of EMA, picked by test labels (optimistic); "
        "held-out: of EMA, on given labels that were held out"
    ]
    if any("stopped" in row for row in rows):
        notes.append("* stopped: one more epoch would have exceeded the budget")
    table.caption = Text("\n".join(notes), "dim not italic")
    return table
