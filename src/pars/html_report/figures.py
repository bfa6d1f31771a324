"""Curves of training, and histograms of confidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.audit import AuditReport
from pars.html_report.charts import Line, histogram, line_chart
from pars.html_report.model import Figure
from pars.report import Run, by_stage

UNITS = (("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6))
Groups = list[tuple[str, npt.NDArray[np.bool_], str]]


def fit_curves(method: str, robust: Run | None, plain: Run | None) -> list[Figure]:
    named = [
        (name, run, css) for name, run, css in ((method, robust, "blue"), ("plain training", plain, "orange")) if run
    ]
    figures = []
    costs = [line["flop"] for _, run, _ in named for line in run.metrics]
    for split, title in (("test", "Accuracy on right labels"), ("holdout", "Agreement with held-out labels")):
        measured = [(name, [line for line in run.metrics if split in line], css) for name, run, css in named]
        measured = [(name, lines, css) for name, lines, css in measured if lines]
        if not measured or not max(costs, default=0.0):
            continue
        unit, scale = unit_of(max(costs))
        lines = [
            Line(name, [e["flop"] / scale for e in epochs], [e[split]["ema"] for e in epochs], css)
            for name, epochs, css in measured
        ]
        legend = [(f"{line.name}: {line.y[-1]:.1f} % last, {max(line.y):.1f} % best", line.css) for line in lines]
        chart = line_chart(lines, x_label=f"training cost ({unit})", y_label="%")
        kept = "" if split == "test" else "Plain training keeps the weights of its best epoch."
        figures.append(Figure(title, chart, legend, kept))
    if robust is not None:
        figures += _selection_figure(robust)
    return figures


def unit_of(flop: float) -> tuple[str, float]:
    """A unit in which so many floating-point operations are a handy number, and how many it has."""
    return next((unit for unit in UNITS if flop >= 0.1 * unit[1]), UNITS[-1])


def run_curves(run: Run) -> list[Figure]:
    kinds = (
        ("test", "ema", "test set, averaged weights", "blue"),
        ("test", "raw", "test set, raw weights", "sky"),
        ("holdout", "ema", "held-out given labels, averaged weights", "orange"),
    )
    lines = []
    for split, weights, name, css in kinds:
        measured = [line for line in run.metrics if split in line]
        if measured:
            lines.append(Line(name, [e["epoch"] for e in measured], [e[split][weights] for e in measured], css))
    figures = []
    if lines:
        chart = line_chart(lines, x_label="epoch", y_label="accuracy (%)", ends=_stage_ends(run))
        figures.append(Figure("Accuracy", chart, [(f"{line.name}: {line.y[-1]:.1f} %", line.css) for line in lines]))
    return figures + _selection_figure(run)


def _selection_figure(run: Run) -> list[Figure]:
    lines = []
    for name, words, css in (("raw", "of the labeled batch", "blue"), ("pseudo", "of the self-training batch", "sky")):
        chosen = [(e["epoch"], e["selection"][name]) for e in run.metrics if name in e["selection"]]
        shares = [(epoch, 100 * s["selected"] / s["rows"]) for epoch, s in chosen if s["rows"]]
        if shares:
            lines.append(Line(words, [epoch for epoch, _ in shares], [share for _, share in shares], css))
    if not lines:
        return []
    chart = line_chart(lines, x_label="epoch", y_label="selected rows (%)", ends=_stage_ends(run))
    above = "" if run.tau is None else f"Rows whose confidence is above τ = {run.tau:g}."
    return [Figure("Selected rows", chart, [(line.name, line.css) for line in lines], above)]


def _stage_ends(run: Run) -> list[tuple[str, float]]:
    return [(lines[-1]["stage"], float(lines[-1]["epoch"])) for lines in by_stage(run.metrics)[:-1]]


def _groups(n: int, run: Run | None, found: AuditReport | None) -> tuple[Groups, str]:
    """Rows with right and wrong labels: as known, else as the audit has it."""
    if run is not None and run.labels.true is not None and run.labels.wrong.any():
        groups = [("right labels", run.labels.correct, "blue"), ("wrong labels", run.labels.wrong, "orange")]
        return groups, "Labels are right or wrong by their known truth."
    if found is not None and len(found) == n:
        wrong = found.is_label_issue
        groups = [
            ("labels likely right", (found.given >= 0) & ~wrong, "blue"),
            ("labels likely wrong", wrong, "orange"),
        ]
        return groups, "Labels are likely wrong where the audit flags them."
    labeled = np.ones(n, dtype=bool) if run is None else run.labels.labeled
    return [("all labels", labeled, "blue")], ""


def histograms(run: Run, found: AuditReport | None) -> dict[str, Any]:
    groups, words = _groups(len(run.labels.given), run, found)
    legend = [(f"{name} ({int(rows.sum())})", css) for name, rows, css in groups]
    figures = []
    for stage, record in run.stages.items():
        where = f"End of {stage}, epoch {record.epoch}"
        confidence = histogram(
            record.confidence, groups, x_label="confidence (highest class probability)", mark=run.tau
        )
        figures.append(Figure(f"{where}: confidence", confidence, legend))
        given = histogram(record.given_label_confidence, groups, x_label="probability of the given label")
        figures.append(Figure(f"{where}: given label", given, legend))
    return {"histograms": figures, "histogram_groups": words}


def classic_histograms(folder: Path, found: AuditReport) -> dict[str, Any]:
    """Of a method without stages: its out-of-fold probabilities."""
    from pars.classic import load_fit  # torch

    evidence = load_fit(folder).evidence()
    p, given = evidence["late"], evidence["given"]
    groups, words = _groups(len(p), None, found)
    legend = [(f"{name} ({int(rows.sum())})", css) for name, rows, css in groups]
    confidence = histogram(p.max(axis=1), groups, x_label="confidence (highest class probability)")
    of_label = histogram(p[np.arange(len(p)), given.clip(0)], groups, x_label="probability of the given label")
    figures = [Figure("Out-of-fold confidence", confidence, legend), Figure("Given label", of_label, legend)]
    return {"histograms": figures, "histogram_groups": words}
