"""Pictures and text for people, made without torch; those of a run from its folder alone."""

from typing import TYPE_CHECKING

from pars.lazy_package import import_lazily
from pars.report.outcome import by_stage, flop_by_stage, flop_words, outcome
from pars.report.read import Labels, RowRecord, Run, read_metrics, read_run
from pars.report.summary import summary
from pars.report.text import comparison_table, overview, sparkline

if TYPE_CHECKING:
    from pars.report.compare import accuracy_over_flop, accuracy_over_flop_figure, budget_table
    from pars.report.figure import NothingToPlot
    from pars.report.plots import (
        accuracy_curves,
        accuracy_curves_figure,
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
    "flop_words",
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
        "pars.report.compare": "accuracy_over_flop, accuracy_over_flop_figure, budget_table",
        "pars.report.figure": "NothingToPlot",
        "pars.report.plots": "accuracy_curves, accuracy_curves_figure, comparison, comparison_figure, "
        "confidence_histograms, confidence_histograms_figure, selection_curves, selection_curves_figure, write_plots",
        "pars.report.sheet": "Tile, contact_sheet",
    },
)
