"""Where the command's words go: results to stdout, all else to stderr, whatever state the two are in."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress


def open_streams() -> None:
    """Make both streams fit to be written to.

    A stream that is closed (`>&-`) becomes the null device: without it Python prints to the other one, and the next
    file opened would get its number. Letters the encoding lacks are escaped rather than refused.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def say(line: str) -> None:
    """A line on stderr; nobody has to read it."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def printable(text: str) -> str:
    r"""The text on one line, without characters that would do something to a terminal.

    >>> printable("a\x1b[31m\nb")
    'a\\x1b[31m\\nb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def give_up_stdout() -> None:
    """Point stdout at the null device: what is left in its buffer would fail again when Python closes it."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
