"""`pars fit DATA`: train on a table, list its wrong labels, and say whether robust training helped."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pars import audit, data, encode, methods, proof
from pars.cli.flags import Parser
from pars.cli.output import add_json_flag, show
from pars.cli.streams import printable, say
from pars.cli.table_flags import add_table_flags, table_options
from pars.data import Labels, Table
from pars.encode import Preparation
from pars.engine import Interrupted, show_progress
from pars.errors import UserError
from pars.files import write_text
from pars.fit_folder import AUDIT, JOB, RESULT, ROWS
from pars.proof import Gain, Proof


def add_fit_flags(parser: argparse.ArgumentParser) -> None:
    """What `fit` and `selftest` share."""
    parser.add_argument("data", metavar="DATA", help="a table, a folder class/name.jpg, or an .npz file")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="for both runs and the list")
    add_table_flags(parser, features=True)
    parser.add_argument("--encoder", metavar="NAME", help="for texts and pictures, as in pars encode (default: chosen)")
    parser.add_argument(
        "--views", type=int, default=0, metavar="N", help="encode N weak and strong views of each row too"
    )
    parser.add_argument("--method", default="pars", choices=list(methods.REGISTRY), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add_json_flag(parser)


def command(args: Sequence[str]) -> int:
    parser = Parser(prog="pars fit", description="Train, list the wrong labels, and say whether it helped.")
    add_fit_flags(parser)
    parser.add_argument("--test", metavar="FILE", help="a second table with right labels, its columns named alike")
    options = parser.parse_args(args)
    table = read(options, options.data)
    test = None if options.test is None else read(options, options.test, classes=table.classes)

    def work() -> int:
        found = fitted(options, table, table.labels, test=test)
        files = audit.write_audit(found.report, options.out / AUDIT, ["csv"], content=proof.content_of(table))
        result = {"out": str(options.out), "method": options.method, **found.summary()}
        write_text(options.out / RESULT, json.dumps(result, indent=1) + "\n")
        show(options.json, result, lambda: text(found, options.method, files[0]))
        return 0

    return going_on(work)


def read(options: argparse.Namespace, source: str, **more: Any) -> Table:
    table = data.read_table(source, **table_options(options), **more)
    where = f"{source}, column {options.label!r}" if options.label else source
    given = np.unique(table.labels[table.labels >= 0])
    if not len(given):
        expected = "some" if options.label else "--label COLUMN, or y in an .npz file, or a folder for each class"
        raise UserError(f"{where} has no labels, expected {expected}")
    if len(given) < 2 and not more:
        raise UserError(f"{where} has labels of one class, {table.classes[given[0]]!r}, expected at least two classes")
    return table


def fitted(options: argparse.Namespace, table: Table, labels: Labels, **more: Any) -> Proof:
    """Encode the rows and train, or go on where the same command was stopped; `more` is for `proof.save_rows`."""
    out: Path = options.out
    job = {name: str(value) for name, value in vars(options).items() if name not in ("out", "json", "device")}
    job |= {"rows_blake2b": fingerprint(table, more.get("test"))}
    check_out(out, job)
    if not (out / ROWS).exists():
        preparation = replace(encode.prepare(table, options.encoder), reading=table_options(options))
        if preparation.note:
            say(printable(preparation.note))
        views = encode.stored_views(options.views, options.seed)
        preparation.check_views(views)
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / JOB, json.dumps(job, indent=1) + "\n")
        with encoding(preparation, table, more.get("test")) as step:
            proof.save_rows(out, table, labels, preparation, views=views, step=step, **more)
    return proof.fit(out, method=options.method, seed=options.seed, device=options.device, watch=show_progress)


def check_out(out: Path, job: dict[str, str]) -> None:
    """Refuse a folder with another job in it; one that has not come to its rows yet has nothing to lose."""
    if (out / JOB).exists():
        if (out / ROWS).exists() and (before := read_job(out / JOB)) != job:
            if isinstance(before, dict) and before | {"rows_blake2b": job["rows_blake2b"]} == job:
                raise UserError(f"{job['data']} has changed since {out} was begun; expected a new folder")
            raise UserError(f"{out} holds another job (see {out / JOB}), expected the same command or a new folder")
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is not empty, expected a new folder")


def fingerprint(*tables: Table | None) -> str:
    """BLAKE2b of rows and labels."""
    there = [table for table in tables if table is not None]
    known = [
        [] if table.true_labels is None else table.true_labels.tolist() for table in there
    ]  # repr of arrays elides
    parts = [(encode.checksum(t), t.labels.tolist(), t.classes, true) for t, true in zip(there, known, strict=True)]
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def read_job(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None  # damaged: no job that could be gone on with


@contextmanager
def encoding(preparation: Preparation, *tables: Table | None) -> Iterator[Callable[[int], None] | None]:
    """Show how far the encoder is; where there is none, the rows are read in a moment."""
    if preparation.encoder is None:
        yield None
        return
    progress = show_progress(epochs=False)
    progress.start(sum(len(table) for table in tables if table is not None), 0, f"encode {preparation.encoder.name}")
    try:
        yield progress.step
    finally:
        progress.stop()


def going_on(work: Callable[[], int]) -> int:
    try:
        return work()
    except Interrupted as stop:
        say("stopped and saved; the same command goes on")
        return stop.exit_code


def text(found: Proof, method: str, listed: Path) -> str:
    report, review = found.report, found.report.review()
    between = f"plausibly {100 * report.noise_rate_low:.1f} to {100 * report.noise_rate_high:.1f} %"
    sure = f"expect {100 * review.expected_precision:.0f} % of them to be"
    called = f"{len(review)} are called wrong: {sure}" if len(review) else "none is called wrong"
    lines = [
        f"{100 * report.noise_rate:.1f} % of {report.n_labeled} labels are wrong ({between})",
        f"every label is listed in {listed}; {called}",
        *report.warnings,
        f"did {method} help, against plain training at the same cost?",
        *line_of("on held-out labels as they are", found.seen, method),
        *(
            ["  on right labels: these labels are too noisy to tell"]
            if found.clean is None
            else line_of("on right labels, so estimated from these", found.clean, method)
        ),
        *([] if found.tested is None else line_of("on right labels that are known", found.tested, method)),
        verdict(found, method),
    ]
    if found.selected is not None:
        where = f"stage {found.selected['stage']!r}, epoch {found.selected['epoch']}"
        lines.append(f"the weights are those of {where}: held-out labels prefer them to the last")
    return "\n".join(lines)


def line_of(where: str, g: Gain, method: str) -> list[str]:
    between = f"{100 * g.gain:+.1f} points, 95 % interval {100 * g.low:+.1f} to {100 * g.high:+.1f}"
    return [f"  {where} ({g.rows} rows): {method} {100 * g.first:.1f} %, plain {100 * g.second:.1f} %: {between}"]


def verdict(found: Proof, method: str) -> str:
    judged = found.seen if found.tested is None else found.tested
    return {
        "helped": f"yes: {method} helped",
        "hurt": "no: plain training is better here; use it, or look at the list of labels",
        "no difference seen": "not proven: the interval holds 0; more rows with labels to compare with would tell",
    }[judged.verdict]
