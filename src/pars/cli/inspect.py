"""`pars inspect RUN`."""

from __future__ import annotations

from collections.abc import Sequence

from pars import report
from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import say, show
from pars.files import expanded
from pars.fit_folder import run_of


def command(args: Sequence[str]) -> int:
    parser = Parser(
        prog="pars inspect", description="What a run trained, its curves and its selection; writes its plots."
    )
    parser.add_argument("run", type=expanded, help="the run's folder, or that of `pars fit`")
    parser.add_argument("--plots", type=expanded, help="folder for the plots (default: RUN/plots)")
    parser.add_argument("--format", choices=("svg", "png"), default="svg")
    add_json_flag(parser)
    options = parser.parse_args(args)
    run = report.read_run(run_of(options.run))
    folder = options.plots or run_of(options.run) / "plots"
    for path in report.write_plots(run, folder, options.format):
        say(f"wrote {path}")
    show(options.json, report.summary(run), lambda: report.overview(run))
    return 0
