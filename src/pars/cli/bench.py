"""`pars bench`: the paper's tables at a stated scale. Results go to a ledger, one line for each cell."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pars import bench
from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import say, show
from pars.errors import UserError
from pars.files import expanded

LEDGER, TUNED, WORK = Path("results/ledger.jsonl"), Path("results/tuned.toml"), Path("runs/bench")
TRIALS, PAGE, HTML = Path("results/tuning.jsonl"), Path("docs/results.md"), Path("results/report.html")
ABOUT = f"""Run the paper's tables at a stated scale, under one protocol (docs/protocol.md).

  pars bench TABLE   run the cells that the ledger lacks: {", ".join(bench.TABLES)}
  pars bench tune    search settings for the rows of a table; cells read what it chose
  pars bench report  write what the ledger has as Markdown and as an HTML page
  pars bench cell    run one cell and print its line
"""


def parser() -> Parser:
    """Of `pars bench TABLE`."""
    out = Parser(
        prog="pars bench", description=ABOUT, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    out.add_argument("table", metavar="TABLE", choices=tuple(bench.TABLES))
    _add_scale(out)
    out.add_argument("--rows", metavar="KEYS", help="only these rows, separated by commas")
    out.add_argument("--cols", metavar="KEYS", help="only these columns; `cifar10` stands for all that begin so")
    out.add_argument("--seeds", metavar="N", type=_count, default=3, help="seeds 0 to N-1 (default: 3)")
    out.add_argument("--out", metavar="FILE", type=expanded, default=LEDGER, help=f"the ledger (default: {LEDGER})")
    out.add_argument("--tuned", metavar="FILE", type=expanded, default=TUNED, help=f"tuned settings (default: {TUNED})")
    out.add_argument("--list", action="store_true", help="only list the cells and which of them are done")
    _add_running(out)
    _add_sources(out)
    add_json_flag(out)
    return out


def tune_parser() -> Parser:
    out = Parser(
        prog="pars bench tune",
        description="Search settings for the rows of a table, by held-out given labels; cells read what it chose.",
        allow_abbrev=False,
    )
    out.add_argument("table", metavar="TABLE", choices=tuple(bench.TABLES))
    _add_scale(out)
    out.add_argument("--rows", metavar="KEYS", help="only these rows, separated by commas")
    out.add_argument("--cols", metavar="KEYS", help="only the data sets of these columns, such as cifar10")
    trials = bench.TRIALS
    out.add_argument("--trials", metavar="N", type=_count, default=trials, help=f"of each row (default: {trials})")
    out.add_argument("--out", metavar="FILE", type=expanded, default=TRIALS, help=f"for the trials (default: {TRIALS})")
    out.add_argument(
        "--tuned", metavar="FILE", type=expanded, default=TUNED, help=f"for the choices (default: {TUNED})"
    )
    _add_running(out)
    _add_sources(out)
    add_json_flag(out)
    return out


def report_parser() -> Parser:
    out = Parser(
        prog="pars bench report",
        description="Write what the ledger has as Markdown and as an HTML page.",
        allow_abbrev=False,
    )
    out.add_argument("--ledger", metavar="FILE", type=expanded, default=LEDGER, help=f"default: {LEDGER}")
    out.add_argument("--markdown", metavar="FILE", type=expanded, default=PAGE, help=f"to write (default: {PAGE})")
    out.add_argument("--html", metavar="FILE", type=expanded, default=HTML, help=f"to write (default: {HTML})")
    out.add_argument(
        "--readme", metavar="FILE", type=expanded, help="also replace the table between the marks of this page"
    )
    add_json_flag(out)
    return out


def cell_parser() -> Parser:
    out = Parser(prog="pars bench cell", description="Run one cell and print its line of the ledger.")
    _add_scale(out)
    out.add_argument("--column", metavar="KEY", required=True)
    out.add_argument("--row", metavar="KEY", required=True)
    out.add_argument("--seed", type=int, default=0)
    out.add_argument("--settings", metavar="JSON", default="{}", help="length, [train] and [method] settings")
    out.add_argument("--trial", type=int, help="of a search: the test set is not looked at")
    out.add_argument("--keep", action="store_true", help="keep the run folder")
    _add_sources(out)
    add_json_flag(out)
    return out


def _add_scale(out: Parser) -> None:
    texts = "; ".join(f"{scale.name}: {scale.about}" for scale in bench.SCALES.values())
    out.add_argument("--scale", metavar="NAME", choices=tuple(bench.SCALES), default="features", help=texts)


def _add_running(out: Parser) -> None:
    out.add_argument(
        "--jobs", metavar="N", type=_count, default=1, help="cells at a time, one thread each (default: 1)"
    )
    out.add_argument("--cluster", metavar="ADDRESS", help="of a Dask scheduler that runs the cells; extra `cluster`")
    out.add_argument("--retry", action="store_true", help="run cells again that failed")
    out.add_argument("--keep", action="store_true", help="keep run folders: weights and logs")


def _add_sources(out: Parser) -> None:
    out.add_argument(
        "--features",
        metavar="[DATA=]FILE",
        action="append",
        default=[],
        help="an .npz of `pars encode`; may be repeated",
    )
    out.add_argument("--root", metavar="DIR", help="folder of the data sets and of CIFAR-N's files")
    out.add_argument("--work", metavar="DIR", type=expanded, default=WORK, help=f"for runs under way (default: {WORK})")


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number of at least 1")
    return value


def command(args: Sequence[str]) -> int:
    kind = args[0] if args else ""
    if kind == "cell":
        return _cell(args)
    if kind == "tune":
        return _tune(args[1:])
    if kind == "report":
        return _report(args[1:])
    return _table(args)


def _table(args: Sequence[str]) -> int:
    options = parser().parse_args(args)
    table = bench.table(options.table)
    rows, columns = (
        bench.chosen(options.rows, table.rows, "--rows"),
        bench.chosen(options.cols, table.columns, "--cols"),
    )
    tuned = bench.read_tuned(options.tuned)
    cells = bench.cells_of(options.scale, rows, columns, range(options.seeds), tuned)
    plan = _plan(options, cells, options.out)
    if options.list:
        return _list(plan, options.json)
    untuned = {
        row.key
        for row in bench.rows_of(rows)
        for column in columns
        if bench.SCALES[options.scale].is_tuned and tuned.lacks(options.scale, column, row)
    }
    if untuned:
        say(f"not tuned, run with their presets' settings: {', '.join(sorted(untuned))}")
    return _run(plan, options.json)


def _tune(args: Sequence[str]) -> int:
    options = tune_parser().parse_args(args)
    table = bench.table(options.table)
    rows = bench.rows_of(bench.chosen(options.rows, table.rows, "--rows"))
    columns = [bench.COLUMNS[key] for key in bench.chosen(options.cols, table.columns, "--cols")]
    data = list(dict.fromkeys(column.data for column in columns if column.has_small_scales))
    cells = bench.trial_cells(options.scale, rows, data, options.trials)
    try:
        return _run(_plan(options, cells, options.out), options.json)
    finally:  # of rows whose trials are all there, also when it was stopped
        before = bench.read_tuned(options.tuned)
        chosen = bench.choose(bench.read_ledger(options.out), before, options.trials)
        if chosen != before:
            bench.write_tuned(options.tuned, chosen)
            say(f"wrote {options.tuned}")


def _report(args: Sequence[str]) -> int:
    from pars.files import write_text

    options = report_parser().parse_args(args)
    for flag, path, suffix in (("--markdown", options.markdown, ".md"), ("--html", options.html, ".html")):
        if path.suffix.lower() != suffix and (path.is_file() or not path.exists()):
            raise UserError(f"{flag} is {path}, expected a name that ends in {suffix}")
    lines = bench.read_ledger(options.ledger)
    if not lines:
        raise UserError(f"{options.ledger} has no results; `pars bench TABLE` makes some")
    written = {options.markdown: bench.results_page(lines), options.html: bench.html_page(lines)}
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    if options.readme is not None:
        bench.replace_between_marks(options.readme, bench.readme_table(lines))
    files = [str(path) for path in (*written, options.readme) if path is not None]
    show(options.json, {"written": files, "lines": len(lines)}, lambda: f"wrote {', '.join(files)}")
    return 0


def _plan(options: argparse.Namespace, cells: Sequence[bench.Cell], ledger: Path) -> bench.Plan:
    return bench.Plan(
        cells=cells,
        where=_sources(options),
        ledger=ledger,
        work=options.work,
        jobs=options.jobs,
        cluster=options.cluster,
        retry=options.retry,
        keep=options.keep,
    )


def _sources(options: argparse.Namespace) -> bench.Sources:
    if options.scale != "smoke":
        return bench.sources(options.features, options.root)
    path = options.work / "digits-features.npz"
    if not options.features and not path.exists():
        bench.smoke_features(path)
    return bench.sources(options.features or [f"cifar10={path}"], options.root)


def _run(plan: bench.Plan, as_json: bool) -> int:
    from pars.engine import Interrupted

    try:
        found = bench.run_all(plan, say, bench.show_progress())
    except Interrupted as stop:
        say("Stopped and saved. Run the same command again to resume.")
        return stop.exit_code
    for reason in dict.fromkeys(found.skipped.values()):
        names = [name for name, why in found.skipped.items() if why == reason]
        say(f"not run: {len(names)} cells ({reason})")
    value = {
        "ledger": str(plan.ledger),
        "in_ledger": found.done,
        "ran": found.ran,
        "failed": found.failed,
        "not_run": found.skipped,
    }
    text = f"{found.ran} cells run, {len(found.failed)} of them failed; {found.done} were in {plan.ledger}"
    show(as_json, value, lambda: text)
    return 1 if found.failed else 0


def _list(plan: bench.Plan, as_json: bool) -> int:
    lines = {(line["cell"], line["config"]): line["status"] for line in bench.read_ledger(plan.ledger)}
    status = {}
    for cell in plan.cells:
        reason = bench.check_runnable(cell)
        status[cell.name] = f"not run: {reason}" if reason else ""
        if not reason:
            status[cell.name] = lines.get((cell.name, bench.fingerprint(cell, plan.where)), "to do")
    show(as_json, status, lambda: "\n".join(f"{name}  {text}" for name, text in status.items()))
    return 0


def _cell(args: Sequence[str]) -> int:
    from pars.bench.task import IN_USE
    from pars.engine import Interrupted

    options = cell_parser().parse_args(args[1:])
    cell = bench.Cell(
        options.scale, options.column, options.row, options.seed, _settings(options.settings), options.trial
    )
    if reason := bench.check_runnable(cell):
        raise UserError(f"{cell.name}: {reason}")
    os.environ["OMP_NUM_THREADS"] = "1"  # sums depend on the number of threads
    try:
        line = bench.run_cell(cell, _sources(options), options.work, ["bench", *args], keep=options.keep, log=say)
    except bench.InUse as error:
        say(f"pars bench: {error}")
        return IN_USE
    except Interrupted as stop:
        say("Stopped and saved. Run the same command again to resume.")
        return stop.exit_code
    print(json.dumps(line))
    sys.stdout.flush()
    return 0


def _settings(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"--settings is no JSON: {error}") from error
    tables = isinstance(value, dict) and all(isinstance(value.get(key, {}), dict) for key in ("train", "method"))
    length = value.get("length", 1.0) if isinstance(value, dict) else None
    unknown = set(value) - {"length", "train", "method"} if isinstance(value, dict) else set()
    if not tables or unknown or not isinstance(length, int | float) or not 0 < length <= 1:
        raise UserError(f'--settings is {text}, expected {{"length": 0 to 1, "train": {{…}}, "method": {{…}}}}')
    return dict(value)
