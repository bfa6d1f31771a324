"""`pars resume RUN`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pars import report, run
from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import show, stoppable
from pars.engine import show_progress


def command(args: Sequence[str]) -> int:
    parser = Parser(prog="pars resume", description="Resume an interrupted run.")
    parser.add_argument("run", type=Path, help="the run's folder")
    add_json_flag(parser)
    options = parser.parse_args(args)

    def work() -> int:
        result = run.resume(options.run, callback=show_progress(), title=options.run.name)
        show(options.json, {"run": str(options.run), **result}, lambda: report.overview(report.read_run(options.run)))
        return 0

    return stoppable(work, options.run)
