"""Freed memory stays with the process."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from pars.engine import keep_freed_memory

TOUCH = """
import resource, sys, torch
from pars.engine import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    sys.exit(3)
def use():
    torch.ones(10_000_000)  # 40 MB, freed at once
for _ in range(3):
    use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", TOUCH, how], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("this C library cannot be asked")
    return int(done.stdout)


def test_memory_that_was_freed_is_used_again_without_asking_the_kernel() -> None:
    pages = 5 * 40_000_000 // resource.getpagesize()
    given_back, kept = page_faults("give back"), page_faults("keep")
    assert kept < pages / 10
    assert kept < given_back


def test_asking_twice_does_no_harm() -> None:
    assert keep_freed_memory() == keep_freed_memory()
