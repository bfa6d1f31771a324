"""`pars selftest DATA --flip 0.1`: labels flipped on purpose in the user's own table, and how many are found."""

from __future__ import annotations

from collections.abc import Sequence

from pars import fitting
from pars.cli.fit import STOPPED, add_fit_flags, read, say_note
from pars.cli.flags import Parser
from pars.cli.output import say, show
from pars.engine import Interrupted


def command(args: Sequence[str]) -> int:
    parser = Parser(prog="pars selftest", description="Flip some of your labels, and see how many of them are found.")
    add_fit_flags(parser)
    parser.add_argument("--flip", type=float, default=0.1, metavar="SHARE", help="of the labels (default: 0.1)")
    options = parser.parse_args(args)
    table, settings = read(options)
    try:
        found = fitting.selftest_table(table, options.flip, settings, out=options.out, progress=True, log=say_note)
    except Interrupted as stop:
        say(STOPPED)
        return stop.exit_code
    show(options.json, {"out": str(options.out), **found.summary()}, lambda: str(found))
    return 0
