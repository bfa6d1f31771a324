"""One thread for every test: bits depend on the number of threads, and these networks are too small to share.

Hypothesis: the same examples every time, and no deadline: a test that others slow down has not failed.
"""

from __future__ import annotations

import signal

import torch
from hypothesis import settings

settings.register_profile("pars", deadline=None, derandomize=True)
settings.load_profile("pars")
torch.set_num_threads(1)


# A shell starts background jobs deaf to Ctrl-C, and nohup to a hang-up. pars respects that; the tests of both must not.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
