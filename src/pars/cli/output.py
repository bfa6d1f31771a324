"""Where the command's words go: results to stdout, all else to stderr, whatever state the two are in.

`main` imports this module before anything else, so it imports rich and the training loop where they are needed.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pars.errors import UserError

if TYPE_CHECKING:
    from rich.console import RenderableType


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


def show(as_json: bool, value: Any, text: Callable[[], RenderableType]) -> None:
    """The result: JSON, or the same for people."""
    if as_json:
        print(json.dumps(value))
        return
    from rich.console import Console
    from rich.text import Text

    shown = text()
    # A string is shown as it is: class names may look like markup, and lines are not to be broken at 80 columns.
    Console().print(Text(shown) if isinstance(shown, str) else shown, soft_wrap=isinstance(shown, str))


def stoppable(work: Callable[[], int], run: Path) -> int:
    """Run `work`; if it is interrupted or the disk is full, say how to resume. The folder is consistent by then."""
    from pars.engine import Interrupted, RunFolder
    from pars.files import NoSpace

    try:
        return work()
    except Interrupted as stop:
        say(f"Stopped and saved. Resume with: pars resume {run}")
        return stop.exit_code
    except KeyboardInterrupt:
        if not RunFolder(run).config.exists():
            raise
        say(f"Stopped without saving; the last checkpoint is kept. Resume with: pars resume {run}")
        return 130
    except NoSpace as error:
        if not RunFolder(run).config.exists():
            raise
        raise UserError(f"{error}; free some space and `pars resume {run}`") from error
