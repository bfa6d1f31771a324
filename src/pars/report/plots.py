"""The plots of a run and of comparisons.

Each `..._figure` function returns a matplotlib figure; its twin without the suffix also writes it as SVG or PNG.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from pars.errors import UserError
from pars.report.figure import (
    BLUE,
    DASHES,
    FORMATS,
    GRAY,
    SKY,
    VERMILLION,
    NothingToPlot,
    curve_style,
    legend_outside,
    mark_stages,
    style,
    wrapped,
    write,
)
from pars.report.read import Floats, Mask, Run
from pars.report.summary import WEIGHTS, Epoch, by_stage, grouped, selection_percentages

BINS = np.linspace(0, 1, 41)
# The batch a selection was made on: its line style and its label.
BATCHES: dict[str, tuple[Any, str]] = {
    "raw": (DASHES[0], "labeled batch"),
    "pseudo": (DASHES[1], "self-training batch"),
}
UNITS = (("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6))
Group = tuple[str, Mask, str]  # of labeled rows: name, which rows, color


def confidence_histograms(run: Run, path: Path) -> Figure:
    """Write the histograms of confidence for correct and wrong labels at the end of each stage (the paper's Fig. 2)."""
    return write(confidence_histograms_figure(run), path)


def accuracy_curves(run: Run, path: Path) -> Figure:
    """Write test and held-out accuracy over epochs, for averaged and raw weights."""
    return write(accuracy_curves_figure(run), path)


def selection_curves(run: Run, path: Path) -> Figure:
    """Write the size of the selection over epochs, and the accuracy of its labels and pseudo-labels."""
    return write(selection_curves_figure(run), path)


def comparison(curves: Mapping[str, Sequence[Epoch]], path: Path, *, title: str) -> Figure:
    """Write the test accuracy of several runs over epochs; `curves` maps names to the lines of metrics.jsonl."""
    return write(comparison_figure(curves, title=title), path)


def accuracy_over_flop(curves: Mapping[str, Sequence[Epoch]], path: Path, *, title: str) -> Figure:
    """Write the accuracy of several runs over training FLOP; `curves` maps names to the lines of metrics.jsonl."""
    return write(accuracy_over_flop_figure(curves, title=title), path)


def write_plots(run: Run, folder: Path, format: str = "svg") -> list[Path]:
    """Write every plot that the run has data for, and return the paths."""
    if format not in FORMATS:
        raise UserError(f"unknown format {format!r} for plots; there are: {', '.join(FORMATS)}")
    plots: dict[str, Callable[[Run, Path], Figure]] = {
        "confidence": confidence_histograms,
        "accuracy": accuracy_curves,
        "selection": selection_curves,
    }
    written = []
    for name, plot in plots.items():
        path = folder / f"{name}.{format}"
        try:
            plot(run, path)
        except NothingToPlot:
            continue
        written.append(path)
    return written


def confidence_histograms_figure(run: Run) -> Figure:
    """Return histograms of the confidence (top row) and of p(given label), with one column per stage."""
    if not run.stages:
        raise NothingToPlot(f"{run.path} has no rows-*.safetensors yet: they are written at the end of each stage")
    groups = _label_groups(run)
    with style():
        figure = Figure(figsize=(1.2 + 3.6 * len(run.stages), 5.4), layout="constrained")
        # Panels do not share y: late in a run nearly all rows fall into the last bin and would flatten the others.
        panels = figure.subplots(2, len(run.stages), squeeze=False)
        for column, (stage, record) in enumerate(run.stages.items()):
            top, bottom = panels[0][column], panels[1][column]
            _draw_histograms(top, record.confidence, groups)
            _draw_histograms(bottom, record.given_label_confidence, groups)
            top.set_title(wrapped(f"end of {stage}, epoch {record.epoch}", 3.2, 10.5))
            top.set_xlabel("confidence (highest class probability)")
            bottom.set_xlabel("probability of the given label")
            if run.tau is not None:
                _mark_threshold(top, run.tau, record.confidence, groups)
        for row in panels:
            row[0].set_ylabel("number of rows")
        legend_outside(figure, panels[0][0].get_legend_handles_labels()[0], above=True)
    return figure


def _label_groups(run: Run) -> list[Group]:
    """Labeled rows, grouped by whether the label is correct."""
    labels = run.labels
    correct, wrong = labels.correct, labels.wrong
    unknown = labels.labeled & ~correct & ~wrong
    if labels.true is None:
        return [("all labels", unknown, BLUE)]
    groups = [("correct labels", correct, BLUE), ("wrong labels", wrong, VERMILLION)]
    return groups + ([("labels without known truth", unknown, GRAY)] if unknown.any() else [])


def _draw_histograms(axes: Axes, values: Floats, groups: Sequence[Group]) -> None:
    inside = values.clip(0, 1)  # float32 probabilities may round to a little more than 1
    for name, rows, color in groups:
        label = f"{name} ({grouped(int(rows.sum()))})"
        axes.hist(inside[rows], bins=list(BINS), color=color, alpha=0.6, label=label)
    axes.set_xlim(0, 1)
    axes.grid(visible=False, axis="x")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))


def _mark_threshold(axes: Axes, tau: float, confidence: Floats, groups: Sequence[Group]) -> None:
    """Draw the line between unselected and selected rows, and write the percentage of each group above it."""
    axes.axvline(tau, color="black", linewidth=1)
    above = [
        f"{100 * float((confidence[rows] > tau).mean()):.1f} % of {name}" for name, rows, _ in groups if rows.any()
    ]
    text = "\n".join([f"confidence > τ = {tau:g}:", *above])
    place: dict[str, Any] = {"x": 0.02, "ha": "left"} if tau > 0.5 else {"x": 0.98, "ha": "right"}
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # hides the line where the text crosses it
    axes.text(y=0.98, s=text, transform=axes.transAxes, va="top", fontsize=8.5, bbox=box, **place)
    # The text stands above the bars.
    axes.set_ylim(top=(1.25 + 0.07 * len(above)) * axes.get_ylim()[1])


def accuracy_curves_figure(run: Run) -> Figure:
    """Return accuracy over epochs: on the test set (averaged and raw weights) and on held-out given labels."""
    kinds = (
        ("test", "ema", "test set", BLUE, 2.2),
        ("test", "raw", "test set", SKY, 1.2),
        ("holdout", "ema", "held-out given labels", VERMILLION, 1.8),
    )
    if not any(split in line for line in run.metrics for split in ("test", "holdout")):
        raise NothingToPlot(f"{run.path / 'metrics.jsonl'} has no epoch with a test or held-out accuracy")
    with style():
        figure = Figure(figsize=(6.8, 4.0), layout="constrained")
        axes = figure.subplots()
        for split, weights, name, color, width in kinds:
            measured = [line for line in run.metrics if split in line]
            if measured:
                values = [line[split][weights] for line in measured]
                label = f"{name}, {WEIGHTS[weights]}: {values[-1]:.1f} %"
                _draw_curve(axes, [line["epoch"] for line in measured], values, label, color=color, linewidth=width)
        mark_stages(axes, _stage_ends(run))
        _epochs_axis(axes, run.metrics)
        axes.set_ylabel("accuracy (%)")
        legend_outside(figure, axes.get_legend_handles_labels()[0])
    return figure


def selection_curves_figure(run: Run) -> Figure:
    """Return four panels: size of the selection, accuracy of pseudo-labels and of given labels in it, memorization.

    Without true labels only the first can be drawn.
    """
    batches = [name for name in BATCHES if any(name in line["selection"] for line in run.metrics)]
    if not batches:
        raise NothingToPlot(f"{run.path / 'metrics.jsonl'} has no epoch with a selection of rows")
    above = "" if run.tau is None else f" (confidence > {run.tau:g})"
    groups = {"selected rows": BLUE, "unselected rows": VERMILLION, "all labeled rows": GRAY}
    # Title, curves by group, batches. Only the labeled batch has given labels.
    panels: list[tuple[str, dict[str, str], list[str]]] = [
        (f"fraction of selected rows{above}", {"selected rows": "selected"}, batches),
        (
            "pseudo-label accuracy",
            {"selected rows": "pseudo_accuracy_selected", "all labeled rows": "pseudo_accuracy"},
            batches,
        ),
        (
            "fraction of given labels that are correct",
            {"selected rows": "labels_right_selected", "unselected rows": "labels_right_unselected"},
            batches[:1],
        ),
        ("fraction of wrong labels memorized", {"all labeled rows": "memorized"}, batches[:1]),
    ]
    percentages = {
        name: [
            (line["epoch"], selection_percentages(line["selection"][name]))
            for line in run.metrics
            if name in line["selection"]
        ]
        for name in batches
    }
    truth = run.labels.true is not None
    with style():
        figure = Figure(figsize=(9.2, 6.2) if truth else (6.8, 3.8), layout="constrained")
        grid = figure.subplots(2, 2, sharex=True).ravel() if truth else [figure.subplots()]
        stage_end, used = None, {}
        for axes, (title, curves, of_batches) in zip(grid, panels, strict=False):
            for group, key in curves.items():
                for name in of_batches:
                    epochs, values = [e for e, _ in percentages[name]], [p[key] for _, p in percentages[name]]
                    label = group if name == batches[0] else ""
                    _draw_curve(axes, epochs, values, label, color=groups[group], linestyle=BATCHES[name][0])
                used[group] = groups[group]
            stage_end = mark_stages(axes, _stage_ends(run))
            axes.set_title(title)
            axes.set_ylim(-2, 102)
            axes.set_ylabel("%")
            _epochs_axis(axes, run.metrics)
            axes.label_outer()
        handles: list[Artist] = [Line2D([], [], color=color, label=group) for group, color in used.items()]
        if len(batches) > 1:
            handles += [Line2D([], [], color="black", linestyle=d, label=label) for d, label in BATCHES.values()]
        legend_outside(figure, handles + ([] if stage_end is None else [stage_end]))
    return figure


def comparison_figure(curves: Mapping[str, Sequence[Epoch]], *, title: str) -> Figure:
    """Return the test accuracy (averaged weights) of several runs over epochs, with their last values in the legend."""
    measured = {name: [line for line in lines if "test" in line] for name, lines in curves.items()}
    measured = {name: lines for name, lines in measured.items() if lines}
    if not measured:
        raise NothingToPlot("no run to compare has a test accuracy")
    with style():
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        axes = figure.subplots()
        for index, (name, lines) in enumerate(measured.items()):
            values = [line["test"]["ema"] for line in lines]
            label = f"{name}: {values[-1]:.1f} %"
            _draw_curve(axes, [line["epoch"] for line in lines], values, label, linewidth=2.2, **curve_style(index))
        _epochs_axis(axes, [line for lines in measured.values() for line in lines])
        axes.set_ylabel("test accuracy (%)")
        axes.set_title(wrapped(title, 6.2, 10.5))
        legend_outside(figure, axes.get_legend_handles_labels()[0])
    return figure


def accuracy_over_flop_figure(curves: Mapping[str, Sequence[Epoch]], *, title: str) -> Figure:
    """Return accuracy over training FLOP, with a panel for averaged and one for raw weights.

    Dots mark the end of every stage but the last. Where no run has a test accuracy, held-out given labels are used.
    """
    keys = {key for lines in curves.values() for line in lines for key in line}
    split = "test" if "test" in keys else "holdout"
    if split not in keys:
        raise NothingToPlot("no run to compare has a test or held-out accuracy")
    measured = {name: [line for line in lines if split in line] for name, lines in curves.items()}
    measured = {name: lines for name, lines in measured.items() if lines}
    most = max(line["flop"] for lines in measured.values() for line in lines)
    unit, scale = next((u for u in UNITS if most >= 0.01 * u[1]), UNITS[-1])
    with style():
        figure = Figure(figsize=(10.4, 4.4), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, weights in zip(panels, ("ema", "raw"), strict=True):
            for index, (name, lines) in enumerate(measured.items()):
                spent, values = [line["flop"] / scale for line in lines], [line[split][weights] for line in lines]
                _draw_curve(axes, spent, values, name, **curve_style(index))
                ends = [stage[-1] for stage in by_stage(curves[name])[:-1] if split in stage[-1]]
                at = [end["flop"] / scale for end in ends], [end[split][weights] for end in ends]
                axes.plot(*at, "o", color=curve_style(index)["color"], markersize=5)
            axes.set_title(WEIGHTS[weights])
            axes.set_xlabel(f"training cost ({unit})")
            axes.set_xlim(left=0)
            axes.xaxis.set_major_locator(MaxNLocator(6))
        panels[0].set_ylabel("test accuracy (%)" if split == "test" else "agreement with held-out labels (%)")
        figure.suptitle(wrapped(title, 10, 10.5))
        handles = panels[0].get_legend_handles_labels()[0]
        if any(len(by_stage(lines)) > 1 for lines in measured.values()):
            handles.append(Line2D([], [], color=GRAY, marker="o", markersize=5, linestyle="", label="end of a stage"))
        legend_outside(figure, handles)
    return figure


def _draw_curve(axes: Axes, x: Sequence[float], values: Sequence[float | None], label: str, **line: Any) -> None:
    """Draw a line with gaps where there is no value; a dot if there is a single value."""
    heights = [np.nan if value is None else value for value in values]
    single = np.isfinite(heights).sum() == 1
    axes.plot(x, heights, label=label or "_", marker="o" if single else "", markersize=4, clip_on=not single, **line)


def _epochs_axis(axes: Axes, metrics: Sequence[Epoch]) -> None:
    last = max(line["epoch"] for line in metrics)
    axes.set_xlim(0, max(last, 1) * 1.01)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_xlabel("epoch")


def _stage_ends(run: Run) -> list[tuple[str, int]]:
    return [(lines[-1]["stage"], lines[-1]["epoch"]) for lines in by_stage(run.metrics)]
