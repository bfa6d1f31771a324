"""What commands share: the --json flag, results on stdout, everything else on stderr."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from pars.engine import Interrupted


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print a machine-readable result on stdout, all else on stderr"
    )


def show(as_json: bool, value: Any, text: Callable[[], RenderableType]) -> None:
    """The result: JSON, or the same for people."""
    if as_json:
        print(json.dumps(value))
    else:
        Console().print(text())


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def stoppable(work: Callable[[], int], run: Path) -> int:
    """Run `work`; after Ctrl-C say how to go on. The folder is saved by then."""
    try:
        return work()
    except Interrupted:
        say(f"stopped and saved; go on with: pars resume {run}")
        return 130
