"""The superclass table against the publisher's own coarse labels, where that file is at hand."""

from __future__ import annotations

import _codecs
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pars.noise import CIFAR100_SUPERCLASS

FILE = Path(os.environ.get("PARS_DATA", "")) / "CIFAR-100_human.pt"


@pytest.mark.skipif(not FILE.exists(), reason="CIFAR-100_human.pt is not in $PARS_DATA")
def test_superclasses_are_those_of_the_publisher() -> None:
    allowed: list[Any] = [
        (np._core.multiarray._reconstruct, "numpy.core.multiarray._reconstruct"),  # type: ignore[attr-defined]
        np.ndarray,
        np.dtype,
        type(np.dtype(np.int64)),
        _codecs.encode,
    ]
    with torch.serialization.safe_globals(allowed):
        human = torch.load(FILE, weights_only=True)
    table = np.array(CIFAR100_SUPERCLASS)
    for which in ("clean", "noisy"):
        assert (table[human[f"{which}_label"]] == human[f"{which}_coarse_label"]).all()
