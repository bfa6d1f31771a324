"""How much faster Winograd convolutions are: a training pass of fast_cnn against the same with direct ones.

    python benchmarks/winograd.py        # needs a C++ compiler; half a minute; writes results/winograd.jsonl

Forward and backward of 256 random images of CIFAR's size, both networks taking turns in one process; `ratio` is the
median over turns of the direct one's time over the other's, `difference` the largest between their outputs relative to
the largest output.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pars.engine import keep_freed_memory
from pars.models import ModelConfig, build_model

RESULTS = Path(__file__).parent.parent / "results" / "winograd.jsonl"
TURNS, BATCH = 7, 256


def seconds(net: nn.Module, x: torch.Tensor) -> float:
    began = time.perf_counter()
    net(x).logsumexp(dim=1).mean().backward()
    return time.perf_counter() - began


def compared(width: int, threads: int) -> dict[str, Any]:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    x = torch.randn(BATCH, 3, 32, 32).to(memory_format=torch.channels_last)
    direct, winograd = (
        build_model(ModelConfig(name="fast_cnn", width=width, convolution=how), (3, 32, 32), 10, seed=0)
        for how in ("direct", "winograd")
    )
    with torch.no_grad():
        there, here = direct(x), winograd(x)
    seconds(direct, x), seconds(winograd, x)
    turns = [seconds(direct, x) / seconds(winograd, x) for _ in range(TURNS)]
    return {
        "width": width,
        "threads": threads,
        "ratio": round(statistics.median(turns), 2),
        "difference": float((there - here).abs().max() / there.abs().max()),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "command": "python benchmarks/winograd.py",
    }


def main() -> None:
    keep_freed_memory()
    lines = [compared(width, threads) for width in (32, 64) for threads in (1, 2)]
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for line in lines:
        print(json.dumps(line))


if __name__ == "__main__":
    main()
