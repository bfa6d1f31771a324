"""`pars resume RUN`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pars import engine, report, run
from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import show, stoppable
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
        with engine.joined(run_device(options.run)) as processes:
            callback = engine.show_progress() if processes.is_first else None
            result = run.resume(options.run, callback=callback, title=options.run.name, processes=processes)
        if not processes.is_first:
            return 0
        show(options.json, {"run": str(options.run), **result}, lambda: report.overview(report.read_run(options.run)))
        return 0

    return stoppable(work, options.run)


def run_device(folder: Path) -> str:
    """The device that the run in a folder uses here."""
    _, config = run.open_run(folder)
    return engine.resolve_device(config.device)
