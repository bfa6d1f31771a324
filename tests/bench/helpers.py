"""Runs of `pars bench` at the smoke scale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

VARYING = ("seconds", "core_seconds", "commit")  # the last: somebody may commit while tests run


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """`pars bench ARGUMENTS` in a folder and a session of its own."""
    command = [sys.executable, "-m", "pars", "bench", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def without_times(ledger: Path) -> dict[str, dict[str, Any]]:
    """The lines by cell without what differs from run to run; every cell stands there once."""
    lines = [json.loads(text) for text in ledger.read_text().splitlines()]
    assert len({line["cell"] for line in lines}) == len(lines)
    return {line["cell"]: {key: value for key, value in line.items() if key not in VARYING} for line in lines}
