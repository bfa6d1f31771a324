"""Plots and text for people, made without torch; those of a run from its folder alone."""

from typing import TYPE_CHECKING

from pars.lazy_package import import_lazily
from pars.report.read import Labels, RowRecord, Run, read_metrics, read_run
from pars.report.summary import by_stage, flop_by_stage, outcome, summary
from pars.report.text import budget_table, comparison_table, format_flop, overview, sparkline

if TYPE_CHECKING:
    from pars.report.figure import NothingToPlot
    from pars.report.plots import (
        accuracy_curves,
        accuracy_curves_figure,
        accuracy_over_flop,
        accuracy_over_flop_figure,
        comparison,
        comparison_figure,
        confidence_histograms,
        confidence_histograms_figure,
        selection_curves,
        selection_curves_figure,
        write_plots,
    )
    from pars.report.sheet import Tile, contact_sheet

__all__ = [
    "Labels",
    "NothingToPlot",
    "RowRecord",
    "Run",
    "Tile",
    "accuracy_curves",
    "accuracy_curves_figure",
    "accuracy_over_flop",
    "accuracy_over_flop_figure",
    "budget_table",
    "by_stage",
    "comparison",
    "comparison_figure",
    "comparison_table",
    "confidence_histograms",
    "confidence_histograms_figure",
    "contact_sheet",
    "flop_by_stage",
    "format_flop",
    "outcome",
    "overview",
    "read_metrics",
    "read_run",
    "selection_curves",
    "selection_curves_figure",
    "sparkline",
    "summary",
    "write_plots",
]

import_lazily(
    __name__,
    {
        "pars.report.figure": "NothingToPlot",
        "pars.report.plots": "accuracy_curves, accuracy_curves_figure, accuracy_over_flop, accuracy_over_flop_figure, "
        "comparison, comparison_figure, confidence_histograms, confidence_histograms_figure, selection_curves, "
        "selection_curves_figure, write_plots",
        "pars.report.sheet": "Tile, contact_sheet",
    },
)
