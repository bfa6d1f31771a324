"""A wall clock that jumps by hours and years, as one that is set: nothing of a run depends on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from campaign.clock import odd_lines, preloaded
from campaign.kills import snapshot

SMALL = ["--data.limit", "200", "--train.epochs", "3", "--model.name", "linear", "--train.checkpoint-seconds", "0"]


def test_a_run_at_a_jumping_clock_ends_in_the_same_bytes(tmp_path: Path) -> None:
    if (variables := preloaded(tmp_path)) is None:
        pytest.skip("no C compiler")
    found = []
    for out, more in ((tmp_path / "steady", {}), (tmp_path / "jumping", variables)):
        command = [sys.executable, "-m", "pars", "train", "--method", "pars", *SMALL, "--out", str(out)]
        done = subprocess.run(command, env=os.environ | more, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "s left" in done.stderr
        assert odd_lines(done.stderr) == []
        found.append(snapshot(out))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("line", "odd"), [("12 rows/s, 3 s left", False), ("-5 rows/s, 3 s left", True), ("9 rows/s, 70000 s left", True)]
)
def test_odd_rates_are_noticed(line: str, odd: bool) -> None:
    assert bool(odd_lines(line)) == odd
