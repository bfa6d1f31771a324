"""Pictures and text made from a run folder alone, without torch."""

from pars.report.outcome import by_stage, outcome
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
from pars.report.read import Labels, RowRecord, Run, read_metrics, read_run
from pars.report.summary import summary
from pars.report.text import comparison_table, overview, sparkline

__all__ = [
    "Labels",
    "RowRecord",
    "Run",
    "accuracy_curves",
    "accuracy_curves_figure",
    "by_stage",
    "comparison",
    "comparison_figure",
    "comparison_table",
    "confidence_histograms",
    "confidence_histograms_figure",
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
