"""Flags, and a mistake in one as one line: which flag, and what would be right."""

from __future__ import annotations

import argparse
import difflib
import io
import re
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import tyro

from pars.augment import ViewsConfig
from pars.errors import UserError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

T = TypeVar("T")
CLOSE = 0.85  # of two flags, difflib's ratio: beyond it, the one is likely meant by the other
COLUMNS = ("label", "text", "image", "features", "categorical", "id", "true", "unlabeled", "delimiter", "encoding")


class Parser(argparse.ArgumentParser):
    """argparse, but a mistake is a UserError; without the usage that would push it off the screen."""

    def error(self, message: str) -> NoReturn:
        message = message.replace(
            "invalid expanded value: ''", "the path is empty, expected the name of a file or folder"
        )
        message = message.replace("invalid expanded value", "not a path")  # ~somebody
        raise UserError(f"{message}; see {self.prog} --help")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """argparse says nothing when the text cannot be written."""
        print(self.format_help(), end="", file=file)


def fields_as_flags(kind: type[T], *, default: T, prog: str, args: Sequence[str], description: str) -> T:
    """`default` with its fields changed by flags; --help prints them all and exits."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return tyro.cli(kind, prog=prog, args=list(args), default=default, description=description)
    except SystemExit as leaving:
        if not leaving.code:
            raise
        raise UserError(f"{_without_far_guess(one_line(said.getvalue()), default)}; see {prog} --help") from None


def parsed(
    parser: argparse.ArgumentParser, kind: type[T], *, default: T, args: Sequence[str], about: str
) -> tuple[argparse.Namespace, T]:
    """A command's own options, and `default` with its fields changed by the other flags; --help prints both and exits.

    The parser has no --help of its own.
    """
    text = f"{about}\n\n{parser.format_help()}"
    if {"-h", "--help"} & set(args):
        fields_as_flags(kind, default=default, prog=parser.prog, args=["--help"], description=text)
    options, rest = parser.parse_known_args(args)
    return options, fields_as_flags(kind, default=default, prog=parser.prog, args=rest, description=text)


def one_line(box: str) -> str:
    """What tyro says in a box: the mistake, and of the explanation below it the flags that it names.

    >>> one_line("╭─ Error ──────╮\\n│ --a: no 'x'  │\\n│ ──────────── │\\n│ Helptext:    │\\n│     --a INT  │\\n╰──╯")
    "--a: no 'x'; expected --a INT"
    """
    plain = re.sub(r"\x1b\[[\d;]*m", "", box)  # colors, where stdout is a terminal
    lines = [line.strip("│ ") for line in plain.splitlines()[1:]]  # without the title
    # Parts are set off by rules; the frame itself is drawn with blanks where the encoding has no lines.
    parts: list[list[str]] = [[]]
    for line in lines:
        if line and not line.strip("─-╰╯"):
            parts.append([])
        elif line:
            parts[-1].append(line)
    message, *more = [part for part in parts if part] or [[plain.strip()]]
    flags = [line for part in more for line in part if line.startswith("--")]
    return " ".join(message).rstrip(".") + (f"; expected {' or '.join(flags)}" if flags else "")


def _without_far_guess(message: str, default: Any) -> str:
    """tyro's message about an unknown flag; where its guess is not like the flag, the fields that there are instead.

    >>> from dataclasses import field, make_dataclass
    >>> kind = make_dataclass("Train", [("epochs", int, 1), ("lr", float, 0.1)])
    >>> fields = make_dataclass("Run", [("train", kind, field(default_factory=kind))])
    >>> _without_far_guess("Unrecognized options: --train.wat, 3; expected --train.ema FLOAT", fields())
    'unknown flag --train.wat; there are --train.epochs, --train.lr'
    """
    found = re.match(r"Unrecognized options: (--[\w.-]+).*?(?:; expected (--[\w.-]+).*)?$", message)
    if found is None or (found[2] and difflib.SequenceMatcher(None, found[1], found[2]).ratio() > CLOSE):
        return message
    table, dot, _ = found[1].removeprefix("--").rpartition(".")
    inner = default
    for name in table.split(".") if dot else ():
        inner = getattr(inner, name.replace("-", "_"), None)
    if not is_dataclass(inner):
        return f"unknown flag {found[1]}"
    names = [f"--{table}{dot}{each.name.replace('_', '-')}" for each in fields(inner)]
    return f"unknown flag {found[1]}; there are {', '.join(names)}"


def check_unmirrored(views: ViewsConfig) -> None:
    """Refuse a setting of predictions where views are made and nothing is predicted."""
    if views.mirror:
        raise UserError("views.mirror is about predictions, of which there are none here")


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print a machine-readable result on stdout, all else on stderr"
    )


def add_table_flags(parser: argparse.ArgumentParser, *, features: bool = False) -> None:
    """`features`: also for tables of numbers and categories."""
    parser.add_argument("--label", metavar="COLUMN", help="the given labels")
    parser.add_argument("--text", metavar="COLUMN", help="the texts")
    parser.add_argument("--image", metavar="COLUMN", help="paths of images, relative to the table")
    if features:
        parser.add_argument(
            "--features", metavar="COLUMN", nargs="+", help="numbers and categories (default: all others)"
        )
        parser.add_argument(
            "--categorical", metavar="COLUMN", nargs="+", help="of the features: codes that look like numbers"
        )
    parser.add_argument("--id", metavar="COLUMN", help="names of the rows (default: their numbers)")
    parser.add_argument(
        "--skip-unreadable",
        action="store_true",
        default=None,
        help="leave out, and count, images that cannot be read",
    )
    parser.add_argument("--true", metavar="COLUMN", help="the right labels, where known; only used to measure")
    parser.add_argument("--unlabeled", metavar="LABEL", help='value that marks unlabeled rows; "" for empty cells')
    parser.add_argument("--delimiter", metavar="CHARACTER", help="of a CSV file (default: detected)")
    parser.add_argument("--encoding", metavar="NAME", help="of a text file (default: UTF-8)")


def add_new_rows_flags(parser: argparse.ArgumentParser, *, label: bool = False) -> None:
    """For rows to predict on, where they differ from those of the fit."""
    if label:
        parser.add_argument("--label", metavar="COLUMN", help="of a table: the labels (default: as in the fit)")
    parser.add_argument("--id", metavar="COLUMN", help="of a table: names of the rows")
    parser.add_argument("--delimiter", metavar="CHARACTER", help="of a CSV file (default: as in the fit)")
    parser.add_argument("--encoding", metavar="NAME", help="of a text file (default: as in the fit)")
    parser.add_argument("--encoder", metavar="NAME", help="only where it is a function: python:MODULE:FUNCTION")
    parser.add_argument("--root", help="folder of the data sets")


def new_rows_options(options: argparse.Namespace) -> dict[str, Any]:
    """The flags of `add_new_rows_flags` that were set, as arguments of `Predictor.read`."""
    found = {name: getattr(options, name, None) for name in ("label", "id", "delimiter", "encoding", "root")}
    return {name: "\t" if value == r"\t" else value for name, value in found.items() if value is not None}


def table_options(options: argparse.Namespace) -> dict[str, Any]:
    """The flags as arguments of `data.read_table`; "\\t" typed in a shell means a tab."""
    chosen = {name: getattr(options, name) for name in COLUMNS if hasattr(options, name)}
    return chosen | {"delimiter": "\t" if chosen["delimiter"] == r"\t" else chosen["delimiter"]}
