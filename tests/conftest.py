"""One thread for every test: bits depend on the number of threads, and these networks are too small to share."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
