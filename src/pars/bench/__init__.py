"""The paper's tables at a stated scale (docs/protocol.md): cells, a runner, a ledger, tuning, a report."""

from typing import TYPE_CHECKING

from pars.bench.ledger import append_once, latest, read_ledger
from pars.bench.scales import SCALES, Cell, Scale, Sources, fingerprint, rows_of, smoke_features, sources
from pars.bench.tables import COLUMNS, ROWS, TABLES, Column, Row, Table, chosen, table
from pars.lazy_package import import_lazily

if TYPE_CHECKING:
    from pars.bench.cell import InUse, run_cell
    from pars.bench.markdown import between_marks, readme_table, replace_between_marks, results_page
    from pars.bench.page import html_page
    from pars.bench.progress import show_progress
    from pars.bench.record import check_runnable
    from pars.bench.runner import Plan, Summary, cells_of, run_all
    from pars.bench.tuning import TRIALS, Tuned, choose, read_tuned, trial_cells, write_tuned

__all__ = [
    "COLUMNS",
    "ROWS",
    "SCALES",
    "TABLES",
    "TRIALS",
    "Cell",
    "Column",
    "InUse",
    "Plan",
    "Row",
    "Scale",
    "Sources",
    "Summary",
    "Table",
    "Tuned",
    "append_once",
    "between_marks",
    "cells_of",
    "check_runnable",
    "choose",
    "chosen",
    "fingerprint",
    "html_page",
    "latest",
    "read_ledger",
    "read_tuned",
    "readme_table",
    "replace_between_marks",
    "results_page",
    "rows_of",
    "run_all",
    "run_cell",
    "show_progress",
    "smoke_features",
    "sources",
    "table",
    "trial_cells",
    "write_tuned",
]

import_lazily(
    __name__,
    {
        "pars.bench.cell": "InUse, run_cell",
        "pars.bench.markdown": "between_marks, readme_table, replace_between_marks, results_page",
        "pars.bench.page": "html_page",
        "pars.bench.progress": "show_progress",
        "pars.bench.record": "check_runnable",
        "pars.bench.runner": "Plan, Summary, cells_of, run_all",
        "pars.bench.tuning": "TRIALS, Tuned, choose, read_tuned, trial_cells, write_tuned",
    },
)
