"""What commands share: the --json flag, results on stdout, how to go on after a stop."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from pars.cli.streams import say
from pars.engine import Interrupted, RunFolder
from pars.errors import UserError
from pars.files import NoSpace


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print a machine-readable result on stdout, all else on stderr"
    )


def show(as_json: bool, value: Any, text: Callable[[], RenderableType]) -> None:
    """The result: JSON, or the same for people."""
    if as_json:
        print(json.dumps(value))
        return
    shown = text()
    # A string is shown as it is: class names may look like markup, and lines are not to be broken at 80 columns.
    Console().print(Text(shown) if isinstance(shown, str) else shown, soft_wrap=isinstance(shown, str))


def stoppable(work: Callable[[], int], run: Path) -> int:
    """Run `work`; when it is stopped or the disk is full, say how to go on. The folder is in order by then."""
    try:
        return work()
    except Interrupted as stop:
        say(f"stopped and saved; go on with: pars resume {run}")
        return stop.exit_code
    except KeyboardInterrupt:
        if not RunFolder(run).config.exists():
            raise
        say(f"stopped at once, not saved since the last checkpoint; go on with: pars resume {run}")
        return 130
    except NoSpace as error:
        if not RunFolder(run).config.exists():
            raise
        raise UserError(f"{error}; free some space and `pars resume {run}`") from error
