"""`pars review RUN`: a page in the browser to look at suspect labels and fix them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress

from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import say, show
from pars.errors import UserError
from pars.files import expanded


def command(args: Sequence[str]) -> int:
    parser = Parser(
        prog="pars review",
        description="Look at the suspect labels of a run in the browser, one key each; out comes your corrected table.",
    )
    parser.add_argument("run", type=expanded, help="the run's folder, or that of `pars fit`")
    parser.add_argument("--sample", type=int, default=0, metavar="N",
                        help="first judge N rows of all and N of the list blind: how good is the list?")  # fmt: skip
    parser.add_argument("--top", type=int, metavar="N", help="the N most suspect rows (default: the flagged ones)")
    parser.add_argument("--table", type=expanded, metavar="FILE", help="your table, if it has moved since the fit")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--no-open", action="store_true", help="print the address, open no browser")
    parser.add_argument("--export", action="store_true", help="only write the files from the decisions so far")
    add_json_flag(parser)
    options = parser.parse_args(args)
    if options.top is not None and options.top < 1:
        raise UserError(f"--top is {options.top}, expected 1 or more")
    if options.sample < 0:
        raise UserError(f"--sample is {options.sample}, expected 1 or more")
    if not 0 <= options.port < 65536:
        raise UserError(f"--port is {options.port}, expected 0 to 65535")
    if options.table is not None and not options.table.exists():
        raise UserError(f"--table {options.table} does not exist, expected the table that was trained on")
    from pars import reviewing

    folder = options.run / reviewing.FOLDER
    if not options.run.is_dir():
        raise UserError(f"{options.run} is not a folder, expected that of a run or of `pars fit`")
    is_new = not folder.exists()
    lock = reviewing.FolderLock(folder)
    if not lock.held and (url := reviewing.running_address(folder)) is not None:
        say("This run is being reviewed already:")
        show(options.json, {"url": url}, lambda: url)
        if not options.no_open:
            reviewing.open_in_browser(url)
        return 0
    try:
        session = reviewing.open_review(
            options.run, table=options.table, top=options.top, read_only=not lock.held, folder=folder
        )
    except UserError:
        if is_new:  # nothing was there, and nothing is left
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if options.export:
        files = [str(path) for path in session.export()]
        show(options.json, {"files": files}, lambda: "\n".join(files))
        return 0
    if options.sample and not session.store.read_only:
        session.draw_sample(options.sample)
    server = reviewing.ReviewServer(session, options.port)
    server.lock = lock
    note = "read-only: another process is reviewing this run" if session.store.read_only else "Ctrl-C ends it"
    say(f"{len(session.items.listed)} suspect labels; {note}. Open this address (it holds your token):")
    show(options.json, {"url": server.url}, lambda: server.url)
    _flush()
    if not options.no_open:
        reviewing.open_in_browser(server.url)
    with suppress(KeyboardInterrupt):  # the usual way to end it
        server.run()
    if not session.store.read_only:
        decided = len([state for state in session.store.state.tolist() if state not in (0, 5)])
        say(f"{decided} decisions; files in {folder}: corrected table, corrections.csv, labels.csv")
    return 0


def _flush() -> None:
    """The address is needed while the server runs, also where stdout is a pipe."""
    import sys

    sys.stdout.flush()
