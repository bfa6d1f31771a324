"""`pars report RUN|FIT OUT.html`."""

from __future__ import annotations

from collections.abc import Sequence

from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import show
from pars.errors import UserError
from pars.files import expanded


def command(args: Sequence[str]) -> int:
    parser = Parser(
        prog="pars report",
        description="One HTML file with all of it: what was trained, whether it helped, which labels are wrong.",
    )
    parser.add_argument("run", type=expanded, help="a folder of `pars fit`, or a run's folder")
    parser.add_argument("out", type=expanded, help="the file to write, such as report.html")
    parser.add_argument(
        "--top", type=int, metavar="N", help="suspect rows to show (default: the flagged ones, at most 100)"
    )
    add_json_flag(parser)
    options = parser.parse_args(args)
    if options.top is not None and options.top < 0:
        raise UserError(f"--top is {options.top}, expected 0 or more")
    from pars import html_report  # jinja2, and torch to audit a fit

    file = html_report.write_report(options.run, options.out, top=options.top)
    size = file.stat().st_size
    show(options.json, {"report": str(file), "bytes": size}, lambda: f"wrote {file} ({size / 1e6:.1f} MB)")
    return 0
