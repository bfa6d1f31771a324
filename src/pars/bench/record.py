"""What every line of a ledger says of its origin: cell, configuration, commit, environment, command. Without torch."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pars.bench.scales import Cell, Sources, fingerprint
from pars.bench.tables import COLUMNS, ROWS
from pars.classic import CLASSIC
from pars.methods import by_name

BINS = 20  # of the histogram of confidences in a line
_PATHS = ("--features", "--root", "--work")  # flags whose folders are private


def about(cell: Cell, config: str) -> dict[str, Any]:
    """What was run. config: its fingerprint."""
    trial = {} if cell.trial is None else {"trial": cell.trial}
    return {
        "cell": cell.name,
        "config": config,
        "status": "ok",
        "scale": cell.scale,
        "column": cell.column,
        "row": cell.row,
        "method": ROWS[cell.row].method,
        "seed": cell.seed,
        **trial,
        "settings": dict(cell.settings),
    }


def failure(cell: Cell, where: Sources, error: str, command: Sequence[str]) -> dict[str, Any]:
    """The line of a cell that could not be run."""
    return about(cell, fingerprint(cell, where)) | {"status": "failed", "error": error} | origin(command)


def origin(command: Sequence[str]) -> dict[str, Any]:
    """Commit, environment and command."""
    return {"commit": _commit(), "environment": _environment(), "command": shared_command(command)}


def shared_command(command: Sequence[str]) -> str:
    """The command as another reader would type it: files by name, folders left out.

    >>> shared_command(["bench", "cell", "--features", "cifar10=/a/b.npz", "--root", "/c", "--seed", "1"])
    'pars bench cell --features cifar10=b.npz --seed 1'
    """
    out, flag = ["pars"], ""
    for text in command:
        flag = text if text.startswith("--") else flag
        if flag not in _PATHS:
            out.append(text)
        elif flag == "--features":
            data, equals, file = text.partition("=")
            out.append(f"{data}={Path(file).name}" if equals else text)
    return shlex.join(out)


@cache
def _commit() -> str | None:
    """The commit of the source tree that runs, "+" where files were changed since; none outside of a repository."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "--short=12", "HEAD")
    if commit is None or git("ls-files", "--error-unmatch", __file__) is None:
        return None
    return commit + ("+" if git("status", "--porcelain", "--untracked-files=no", "--", str(here.parent)) else "")


def _environment() -> dict[str, Any]:
    packages = {}
    for name in ("torch", "numpy", "scikit-learn"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "unknown"
    return {
        "python": platform.python_version(),
        **packages,
        "system": platform.system(),
        "machine": platform.machine(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }


def networks_of(row: str) -> int:
    """How many networks a row trains; 0 for classifiers that are none."""
    method = ROWS[row].method
    return 0 if method in CLASSIC else by_name(method).networks


def check_runnable(cell: Cell) -> str | None:
    """Why a cell cannot be run at this scale; none where it can."""
    column, row = COLUMNS[cell.column], ROWS[cell.row]
    if not column.has_small_scales and cell.scale != "paper":
        return f"{column.title} is run at scale paper only"
    if row.method in CLASSIC and cell.scale not in ("features", "smoke"):
        return f"{row.method} needs feature vectors"
    return None
