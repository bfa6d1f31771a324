"""The plots of a run. Each `..._figure` is pure; its twin writes it as SVG or PNG, by the suffix of the path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from pars.errors import UserError
from pars.report.figure import (
    BLUE,
    CYCLE,
    FORMATS,
    GRAY,
    GREEN,
    VERMILLION,
    NothingToPlot,
    mark_stages,
    per_cent,
    style,
    write,
)
from pars.report.outcome import Epoch, by_stage, grouped, selection_shares
from pars.report.read import Floats, Mask, Run

DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)))  # beyond six runs colors come again
BINS = np.linspace(0, 1, 41)
# Which batch a selection was made on: its line style, and its words.
BATCHES: dict[str, tuple[Any, str]] = {"raw": ("-", "labeled batch"), "pseudo": ((0, (4, 1.5)), "self-training batch")}


def confidence_histograms(run: Run, path: Path) -> Figure:
    """Write how sure the network is of rows with right and wrong labels at each stage end (the paper's Fig. 2)."""
    return write(confidence_histograms_figure(run), path)


def accuracy_curves(run: Run, path: Path) -> Figure:
    """Write test and held-out accuracy over epochs, of averaged and raw weights."""
    return write(accuracy_curves_figure(run), path)


def selection_curves(run: Run, path: Path) -> Figure:
    """Write how many rows were selected over epochs, and how right labels and predictions were."""
    return write(selection_curves_figure(run), path)


def comparison(curves: Mapping[str, Sequence[Epoch]], path: Path, *, title: str) -> Figure:
    """Write the test accuracy (averaged weights) of several runs, given by name as the lines of their metrics.jsonl."""
    return write(comparison_figure(curves, title=title), path)


def write_plots(run: Run, folder: Path, format: str = "svg") -> list[Path]:
    """Write every plot the run has come far enough for; returns their paths."""
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
    """Two rows of panels, one column per stage end: the highest probability (PARS compares it with τ), and p(given)."""
    if not run.stages:
        raise NothingToPlot(f"{run.path} has no rows-*.safetensors yet: they are written at the end of each stage")
    groups = label_groups(run)
    with style():
        figure = Figure(figsize=(1.2 + 3.6 * len(run.stages), 5.4), layout="constrained")
        # Each panel its own height: late in a run nearly all rows are in the last bar, and would flatten the others.
        panels = figure.subplots(2, len(run.stages), squeeze=False)
        for column, (stage, record) in enumerate(run.stages.items()):
            top, bottom = panels[0][column], panels[1][column]
            draw_histograms(top, record.confidence, groups)
            draw_histograms(bottom, record.given_label_confidence, groups)
            top.set_title(f"end of {stage}, epoch {record.epoch}")
            top.set_xlabel("highest class probability")
            bottom.set_xlabel("probability of the given label")
            if run.tau is not None:
                mark_threshold(top, run.tau, record.confidence, groups)
        for row in panels:
            row[0].set_ylabel("rows per bar")
        figure.legend(
            *panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=len(groups), fontsize=10
        )
    return figure


def label_groups(run: Run) -> list[tuple[str, Mask, str]]:
    """Labeled rows by what is known of their labels: words, which rows, color."""
    labels = run.labels
    right, wrong = labels.right, labels.wrong
    unknown = labels.labeled & ~right & ~wrong
    if labels.true is None:
        return [("all labels", unknown, BLUE)]
    groups = [("right labels", right, BLUE), ("wrong labels", wrong, VERMILLION)]
    return groups + ([("labels of unknown truth", unknown, GRAY)] if unknown.any() else [])


def draw_histograms(axes: Axes, values: Floats, groups: Sequence[tuple[str, Mask, str]]) -> None:
    inside = values.clip(0, 1)  # float32 probabilities may round to a little more than 1
    for name, rows, color in groups:
        label = f"{name} ({grouped(int(rows.sum()))})"
        axes.hist(inside[rows], bins=list(BINS), color=color, alpha=0.6, label=label)
    axes.set_xlim(0, 1)
    axes.grid(visible=False, axis="x")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))


def mark_threshold(axes: Axes, tau: float, confidence: Floats, groups: Sequence[tuple[str, Mask, str]]) -> None:
    """The line between unselected and selected rows, and the share of each group on its right."""
    axes.axvline(tau, color="black", linewidth=1)
    shares = [
        f"{100 * float((confidence[rows] > tau).mean()):.1f} % of {name}" for name, rows, _ in groups if rows.any()
    ]
    words = "\n".join([f"above τ = {tau:g}:", *shares])
    # Left of the line, unless it is so far left that there is no room.
    place: dict[str, Any] = {"x": tau - 0.02, "ha": "right"} if tau > 0.5 else {"x": tau + 0.02, "ha": "left"}
    axes.text(y=0.98, s=words, transform=axes.get_xaxis_transform(), va="top", fontsize=8.5, **place)
    axes.set_ylim(top=1.35 * axes.get_ylim()[1])  # the words stand above the bars


def accuracy_curves_figure(run: Run) -> Figure:
    kinds = (
        ("test", "ema", "test, averaged weights", BLUE, 2.2),
        ("test", "raw", "test, raw weights", "#56B4E9", 1.2),
        ("holdout", "ema", "held-out given labels, averaged weights", VERMILLION, 1.8),
    )
    if not any(split in line for line in run.metrics for split in ("test", "holdout")):
        raise NothingToPlot(f"{run.path / 'metrics.jsonl'} has no epoch with a test or held-out accuracy")
    with style():
        figure = Figure(figsize=(6.8, 4.0), layout="constrained")
        axes = figure.subplots()
        mark_stages(axes, stage_ends(run))
        for split, weights, name, color, width in kinds:
            measured = [line for line in run.metrics if split in line]
            if measured:
                values = [line[split][weights] for line in measured]
                label = f"{name}: {values[-1]:.1f} %"
                draw_curve(axes, [line["epoch"] for line in measured], values, label, color=color, linewidth=width)
        epochs_axis(axes, run.metrics)
        per_cent(axes, "accuracy")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def selection_curves_figure(run: Run) -> Figure:
    """The selection: its size, its predictions, its given labels, and the wrong labels memorized."""
    names = [name for name in BATCHES if any(name in line["selection"] for line in run.metrics)]
    if not names:
        raise NothingToPlot(f"{run.path / 'metrics.jsonl'} has no epoch with a selection of rows")
    above = "" if run.tau is None else f" (confidence > {run.tau:g})"
    # Title, and the shares in it: key, words, color, batches. Given labels are those of the labeled batch.
    panels: list[tuple[str, list[tuple[str, str, str]], list[str]]] = [
        (f"Selected rows{above}", [("selected", "", BLUE)], names),
        (
            "Predictions that are right",
            [("pseudo_accuracy_selected", "of selected rows", BLUE), ("pseudo_accuracy", "of all rows", GRAY)],
            names,
        ),
        (
            "Given labels that are right",
            [
                ("labels_right_selected", "of selected rows", BLUE),
                ("labels_right_unselected", "of unselected rows", VERMILLION),
            ],
            names[:1],
        ),
        ("Wrong labels that are predicted (memorized)", [("memorized", "", GREEN)], names[:1]),
    ]
    shares = {
        name: [
            (line["epoch"], selection_shares(line["selection"][name]))
            for line in run.metrics
            if name in line["selection"]
        ]
        for name in names
    }
    truth = run.labels.true is not None
    with style():
        figure = Figure(figsize=(9.2, 6.2) if truth else (6.8, 3.8), layout="constrained")
        grid = figure.subplots(2, 2, sharex=True).ravel() if truth else [figure.subplots()]
        for axes, (title, curves, batches) in zip(grid, panels, strict=False):
            mark_stages(axes, stage_ends(run), names=False)
            for key, words, color in curves:
                for name in batches:
                    epochs, values = [e for e, _ in shares[name]], [s[key] for _, s in shares[name]]
                    label = words if name == batches[0] else ""
                    draw_curve(axes, epochs, values, label, color=color, linestyle=BATCHES[name][0])
            axes.set_title(title)
            axes.set_ylim(-2, 102)
            per_cent(axes, "share")
            epochs_axis(axes, run.metrics)
            axes.label_outer()
            if len(curves) > 1:
                axes.legend(loc="lower right")
        batches_legend(figure, names, stage_ends(run))
    return figure


def batches_legend(figure: Figure, names: Sequence[str], ends: Sequence[tuple[str, int]]) -> None:
    handles = [Line2D([], [], color="black", linestyle=BATCHES[name][0], label=BATCHES[name][1]) for name in names]
    for (stage, end), (after, _) in pairwise(ends):
        words = f"{stage} ends, {after} begins (epoch {end})"
        handles.append(Line2D([], [], color=GRAY, linestyle=(0, (4, 3)), linewidth=1, label=words))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def comparison_figure(curves: Mapping[str, Sequence[Epoch]], *, title: str) -> Figure:
    measured = {name: [line for line in lines if "test" in line] for name, lines in curves.items()}
    measured = {name: lines for name, lines in measured.items() if lines}
    if not measured:
        raise NothingToPlot("no run to compare has a test accuracy")
    with style():
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        axes = figure.subplots()
        for index, ((name, lines), color) in enumerate(zip(measured.items(), cycle(CYCLE), strict=False)):
            values = [line["test"]["ema"] for line in lines]
            dash = DASHES[index // len(CYCLE) % len(DASHES)]
            label = plain(f"{name}: {values[-1]:.1f} %")
            draw_curve(
                axes, [line["epoch"] for line in lines], values, label, color=color, linestyle=dash, linewidth=2.2
            )
        epochs_axis(axes, [line for lines in measured.values() for line in lines])
        per_cent(axes, "test accuracy, averaged weights")
        axes.set_title(plain(title))
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=min(3, len(measured)))
    return figure


def draw_curve(axes: Axes, epochs: Sequence[int], values: Sequence[float | None], label: str, **look: Any) -> None:
    """A line with gaps where there is no value; a dot where the whole line is one point."""
    heights = [np.nan if value is None else value for value in values]
    marker = "o" if np.isfinite(heights).sum() == 1 else ""
    axes.plot(epochs, heights, label=label or "_", marker=marker, markersize=4, **look)


def epochs_axis(axes: Axes, metrics: Sequence[Epoch]) -> None:
    last = max(line["epoch"] for line in metrics)
    axes.set_xlim(0, max(last, 1) * 1.01)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_xlabel("epoch")


def stage_ends(run: Run) -> list[tuple[str, int]]:
    return [(lines[-1]["stage"], lines[-1]["epoch"]) for lines in by_stage(run.metrics)]


def plain(text: str) -> str:
    """Text in which dollars are dollars, not the marks of a formula."""
    return text.replace("$", r"\$")
