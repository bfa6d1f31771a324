"""`pars resume RUN`."""

from __future__ import annotations

from collections.abc import Sequence

from pars import report, run
from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import show, stoppable
from pars.engine import show_progress
from pars.errors import UserError
from pars.files import expanded
from pars.fit_folder import fit_of


def command(args: Sequence[str]) -> int:
    parser = Parser(prog="pars resume", description="Resume an interrupted run.")
    parser.add_argument("run", type=expanded, help="the run's folder")
    add_json_flag(parser)
    options = parser.parse_args(args)

    if fit_of(options.run) == options.run:
        raise UserError(f"{options.run} is the folder of a fit: run the same `pars fit` command again to resume it")

    def work() -> int:
        result = run.resume(options.run, callback=show_progress(), title=options.run.name)
        show(options.json, {"run": str(options.run), **result}, lambda: report.overview(report.read_run(options.run)))
        return 0

    return stoppable(work, options.run)
