"""Show the path of a row through `pars fit`: modules and functions of ours on the way, trainers built, rows read.

    python benchmarks/fit_path.py            # 120 rows, a table on stdout
    python benchmarks/fit_path.py --json     # {"modules": ..., "functions": ..., "trainers": ..., ...}
    python benchmarks/fit_path.py --list     # each function that was called

A module counts if one of its functions was called; import-time code, class bodies and comprehensions do not count.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import pars
from pars.cli import main as command

PACKAGE = str(Path(pars.__file__).parent)
ROWS = 120


class Calls:
    """Functions of the package that were called, and how often some of them were."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str, int]] = set()
        self.trainers = 0
        self.trainings = 0
        self.reads: list[str] = []

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
            return
        if "__qualname__" in code.co_names and "__module__" in code.co_names:  # a class body
            return
        self.functions.add((code.co_filename, code.co_qualname, code.co_firstlineno))
        if code.co_qualname == "Trainer.__init__":
            self.trainers += 1
        if code.co_qualname == "Trainer.run":
            self.trainings += 1
        if code.co_name in ("read_columns", "read_arrays") and "/data/" in code.co_filename:
            self.reads.append(str(frame.f_locals.get("path")))

    @property
    def modules(self) -> set[str]:
        return {file for file, _, _ in self.functions}


def write_table(path: Path) -> None:
    """120 rows of two classes, four numbers each, a tenth of the labels wrong."""
    rng = np.random.default_rng(0)
    true = np.arange(ROWS) % 2
    given = np.where(rng.random(ROWS) < 0.1, 1 - true, true)
    x = 2.0 * true[:, None] + rng.standard_normal((ROWS, 4))
    lines = [",".join([*(f"{value:.4f}" for value in row), "ab"[y]]) for row, y in zip(x, given, strict=True)]
    path.write_text("u,v,w,z,label\n" + "\n".join(lines) + "\n")


def trace() -> Calls:
    calls = Calls()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        table = Path(folder) / "rows.csv"
        write_table(table)
        with contextlib.redirect_stdout(io.StringIO()):
            command(["fit", str(table), "--label", "label", "--out", f"{folder}/warm"])  # imports everything
        threading.setprofile(calls.profile)
        sys.setprofile(calls.profile)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                code = command(["fit", str(table), "--label", "label", "--out", f"{folder}/out"])
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        assert code == 0
        calls.reads = [Path(name).name for name in calls.reads]
    return calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true", help="print each function that was called")
    options = parser.parse_args()
    calls = trace()
    found = {
        "rows": ROWS,
        "modules": len(calls.modules),
        "functions": len(calls.functions),
        "trainers": calls.trainers,
        "trainings": calls.trainings,
        "files_read": calls.reads,
    }
    if options.list:
        for file, name, line in sorted(calls.functions):
            print(f"{Path(file).relative_to(PACKAGE)}:{line} {name}")
    print(json.dumps(found) if options.json else "\n".join(f"{key}: {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
