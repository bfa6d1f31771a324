"""Flags, and a mistake in one as one line: which flag, and what would be right."""

from __future__ import annotations

import argparse
import io
import re
from collections.abc import Sequence
from contextlib import redirect_stderr
from typing import TYPE_CHECKING, NoReturn, TypeVar

import tyro

from pars.augment import ViewsConfig
from pars.errors import UserError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """argparse, but a mistake is a UserError; without the usage that would push it off the screen."""

    def error(self, message: str) -> NoReturn:
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
        raise UserError(f"{one_line(said.getvalue())}; see {prog} --help") from None


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


def check_unmirrored(views: ViewsConfig) -> None:
    """Refuse a setting of predictions where views are made and nothing is predicted."""
    if views.mirror:
        raise UserError("views.mirror is about predictions, of which there are none here")
