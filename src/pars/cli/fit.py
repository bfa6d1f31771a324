"""`pars fit DATA`: train on a table, list its wrong labels, and say whether robust training helped."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pars import fitting
from pars.audit import suspects_text
from pars.classic import check_known
from pars.cli.flags import Parser, add_json_flag, add_table_flags, table_options
from pars.cli.output import printable, say, show
from pars.cli.suspects import APPLY_HELP, apply_rule, next_steps, rule
from pars.data import Table, with_checked_labels
from pars.engine import Interrupted
from pars.errors import UserError
from pars.files import expanded
from pars.fit_folder import AUDIT
from pars.method_api import AUTO

if TYPE_CHECKING:
    from pars.fitting import FitSettings


STOPPED = "Stopped and saved. Run the same command again to resume."


def add_fit_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that `fit` and `selftest` share."""
    parser.add_argument("data", metavar="DATA", help="a table, a folder class/name.jpg, or an .npz file")
    parser.add_argument("--out", type=expanded, required=True, metavar="FOLDER", help="for both runs and the list")
    add_table_flags(parser, features=True)
    parser.add_argument("--encoder", metavar="NAME", help="for texts and images, as in pars encode (default: chosen)")
    parser.add_argument(
        "--views", type=int, default=0, metavar="N", help="encode N weak and N strong views of each row, too"
    )
    parser.add_argument(
        "--network", metavar="NAME", help="train it on the images (timm:NAME, hf:NAME, lite0) or texts (hf:NAME)"
    )
    parser.add_argument("--weights", metavar="FILE", help="of --network; or none (default: its pre-trained ones)")
    size = "side in pixels of the images of --network (default: 224), or tokens of a text at most (128)"
    parser.add_argument("--size", type=int, metavar="N", help=size)
    method = "any of `pars methods`, or auto: held-out labels choose of a few (default: pars)"
    parser.add_argument("--method", default="pars", metavar="NAME", help=method)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add_json_flag(parser)


def command(args: Sequence[str]) -> int:
    parser = Parser(prog="pars fit", description="Train, list the wrong labels, and say whether it helped.")
    add_fit_flags(parser)
    parser.add_argument(
        "--labels",
        type=expanded,
        metavar="FILE",
        help="labels.csv of a review: corrected labels, and rows to leave out; says how the review changed accuracy",
    )
    parser.add_argument("--apply", metavar="above=P", type=rule, help=APPLY_HELP)
    parser.add_argument("--test", metavar="FILE", help="a second table with right labels and the same columns")
    parser.add_argument(
        "--no-baseline",
        dest="baseline",
        action="store_false",
        help="do not train plain cross-entropy to compare with: half of the time",
    )
    options = parser.parse_args(args)
    table, settings = read(options)
    if options.labels is not None:
        table = with_checked_labels(table, options.labels)
    columns = table_options(options)
    test = None
    if options.test is not None:
        columns["skip_unreadable"] = options.skip_unreadable
        test = fitting.read_test_rows(options.test, columns.pop("label"), table, **columns)
    try:
        found = fitting.fit_table(
            table,
            settings,
            test=test,
            out=options.out,
            checked_labels=options.labels,
            progress=True,
            log=say_note,
        )
    except Interrupted as stop:
        say(STOPPED)
        return stop.exit_code
    applied = None
    if options.apply is not None:
        applied = apply_rule(found.audit, found.content, options.out, options.out / AUDIT, options.apply)
    made_by, words = ["pars", "fit"], iter(args)  # what was typed, but for what the next command names itself
    for word in words:
        name, _, value = word.partition("=")
        if name in ("--out", "--labels", "--apply"):
            if not value:
                next(words)
        elif name != "--json":
            made_by.append(word)
    ending = [
        str(found),
        *([suspects_text(found.audit, content=found.content)] if found.audit.is_label_issue.any() else []),
        f"Every label with its suggestion: {options.out / AUDIT / 'audit.csv'}",
        *([] if applied is None else [applied]),
        next_steps(options.out, made_by, any_flagged=bool(found.audit.is_label_issue.any())),
    ]
    show(options.json, {"out": str(options.out), **found.summary()}, lambda: "\n".join(ending))
    return 0


def read(options: argparse.Namespace) -> tuple[Table, FitSettings]:
    """The table that a command names, and how to fit it."""
    if options.method != AUTO:
        check_known(options.method)
    columns = table_options(options)
    columns["skip_unreadable"] = options.skip_unreadable
    table = fitting.read_rows(options.data, columns.pop("label"), **columns)
    network: str | dict[str, object] = "auto"
    if options.network is not None:
        given = {"name": options.network, "weights": options.weights, "size": options.size}
        network = {name: value for name, value in given.items() if value is not None}
    elif options.weights is not None or options.size is not None:
        raise UserError("--weights and --size are those of --network, which is not given")
    return table, fitting.FitSettings(
        method=options.method,
        encoder=options.encoder,
        encoded_views=options.views,
        seed=options.seed,
        device=options.device,
        network=network,
        reading=table_options(options),
        baseline=getattr(options, "baseline", True),
    )


def say_note(note: str) -> None:
    say(printable(note))
