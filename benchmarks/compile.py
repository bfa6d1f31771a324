"""Would torch.compile help? Operations of the views and the small CNN's step, compiled against as they are.

    python benchmarks/compile.py        # needs a C++ compiler; writes results/compile.jsonl

One thread, the core's own time, the better of 30 turns each. A ratio above 1 means that compiling is faster.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pars import models
from pars.augment import crop_flip, pillow_ops
from pars.engine import keep_freed_memory

RESULTS = Path(__file__).parent.parent / "results" / "compile.jsonl"


def best(work: Callable[[], object], turns: int = 30) -> float:
    """Seconds."""
    work()
    found = []
    for _ in range(turns):
        began = time.thread_time()
        work()
        found.append(time.thread_time() - began)
    return min(found)


def compared(name: str, function: Callable[..., Tensor], *args: Any) -> dict[str, Any]:
    compiled = torch.compile(function, dynamic=True)
    same = torch.equal(function(*args), compiled(*args))
    plain, other = best(lambda: function(*args)), best(lambda: compiled(*args))
    return {"what": name, "ratio": round(plain / other, 2), "same_bits": same}


def operations(side: int, batch: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.integers(0, 256, (batch, 3, side, side), dtype=np.uint8))
    half, threshold = torch.full((batch, 1, 1, 1), 0.5), torch.full((batch, 1, 1, 1), 128.0)
    corner, flip = torch.from_numpy(rng.integers(0, 9, (batch, 2))), torch.from_numpy(rng.random(batch) < 0.5)
    lines = [
        compared("sharpness", pillow_ops.sharpness, x, half),
        compared("color", pillow_ops.color, x, half),
        compared("contrast", pillow_ops.contrast, x, half),
        compared("brightness", pillow_ops.brightness, x, half),
        compared("solarize", pillow_ops.solarize, x, threshold),
        compared("crop and flip", lambda *a: crop_flip(*a, pad=4, pad_mode="reflect"), x, corner, flip),
    ]
    return [line | {"side": side, "batch": batch} for line in lines]


def network() -> dict[str, Any]:
    config = models.ModelConfig(name="small_cnn", width=16)
    net = models.build_model(config, (3, 32, 32), 10, seed=0).train()
    x, y = torch.randn(512, 3, 32, 32), torch.arange(512) % 10
    compiled = torch.compile(net)

    def step(forward: Callable[[Tensor], Tensor]) -> None:
        torch.autograd.backward(F.cross_entropy(forward(x), y))
        net.zero_grad(set_to_none=True)

    plain, other = best(lambda: step(net), 6), best(lambda: step(compiled), 6)
    return {"what": "small_cnn, forward and backward", "batch": 512, "ratio": round(plain / other, 2)}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_freed_memory()
    lines = [*operations(32, 384), *operations(224, 1), network()]
    command = {"command": "python benchmarks/compile.py"}
    RESULTS.write_text("".join(json.dumps(line | command) + "\n" for line in lines))
    for line in lines:
        print(json.dumps(line))


if __name__ == "__main__":
    main()
