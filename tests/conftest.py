"""One thread for every test: bits depend on the number of threads, and these networks are too small to share.

Hypothesis: the same examples every time, and no deadline: a test that others slow down has not failed.
"""

from __future__ import annotations

import signal

import pytest
import torch
from hypothesis import settings

settings.register_profile("pars", deadline=None, derandomize=True)
settings.load_profile("pars")
torch.set_num_threads(1)


# A shell starts background jobs deaf to Ctrl-C, and nohup to a hang-up. pars respects that; the tests of both must not.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)


# Files that start processes or train for long, the longest first. With --dist loadscope a file is one worker's work:
# left for the end, one worker would do it while the others have nothing to do.
LONG = (
    "tests/bench/test_cluster.py",
    "tests/bench/test_runner.py",
    "tests/cli/test_processes.py",
    "tests/engine/test_processes.py",
    "tests/test_docs.py",
    "tests/reviewing/test_store.py",
    "tests/reviewing/test_journey.py",
    "tests/test_examples.py",
    "tests/cli/test_train.py",
    "tests/cli/test_streams.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.nodeid.split("::", 1)[0], len(LONG)))
