"""The way of a row through `pars fit` stays short (benchmarks/fit_path.py has the list)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_fit_reads_its_table_once_and_stays_within_few_modules_and_functions() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "fit_path.py"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["files_read"] == ["rows.csv"]
    assert found["trainers"] == found["trainings"]
    assert found["modules"] <= 82
    assert found["functions"] <= 400
