"""How much faster two processes of one thread each train than one: epochs of `cifar10-small` on random images.

    python benchmarks/distributed.py --json      # on a machine with two idle cores

Runs alternate. A run's speed is that of the steps between its first and last epoch: start, evaluation and saving do not
count. `scaling` is the median over rounds of the speed of two processes over that of one. `bound` is that of two runs
at a time that have nothing to do with each other, together: what the machine, its memory and its other work allow.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src"
ROWS, EPOCHS = 1024, 4


def measure(method: str) -> None:
    """Train, in as many processes as torchrun started; the first prints seconds per epoch after the first one."""
    import numpy as np
    import torch

    from pars import run
    from pars.data import Dataset, Split
    from pars.engine import Callback, joined
    from pars.methods import PARSPaper
    from pars.noise import NoiseConfig

    class Clock(Callback):
        def __init__(self) -> None:
            self.at: list[float] = []

        def epoch(self, line: dict[str, Any]) -> None:
            self.at.append(time.perf_counter())

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    labels = np.arange(ROWS) % 10
    images = rng.integers(0, 256, (ROWS, 3, 32, 32), dtype=np.uint8)
    data = Dataset("random", Split(images, labels, labels), None, tuple("abcdefghij"), (0.5,) * 3, (0.25,) * 3)
    config = run.preset("cifar10-small")(NoiseConfig(), method)
    settings = replace(config.train, epochs=EPOCHS, evaluate_every=EPOCHS, dynamics_every=0)
    config = replace(config, train=settings, device="cpu")
    if isinstance(config.method, PARSPaper):
        config = replace(config, method=replace(config.method, warm_up=0))  # the main stage only
    with joined("cpu") as processes:
        trainer = run.build_trainer(config, run.load_training_data(config, data), None, processes=processes)
        trainer.callback = clock = Clock()
        trainer.run()
        if processes.is_first:
            print(json.dumps({"seconds": (clock.at[-2] - clock.at[0]) / (EPOCHS - 2)}))


def run_with(processes: int, method: str) -> float:
    env = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *launcher, str(Path(__file__).resolve()), "--measure", method]
        found = subprocess.run(command, env=env, check=True, capture_output=True, text=True, cwd=folder)
    seconds: float = json.loads(found.stdout.splitlines()[-1])["seconds"]
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="pars")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", metavar="METHOD", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return
    turns = []
    for _ in range(options.rounds):
        one, two = run_with(1, options.method), run_with(2, options.method)
        with ThreadPoolExecutor(2) as pool:
            apart = statistics.mean(pool.map(run_with, (1, 1), [options.method] * 2))
        turns.append((one, two, apart))
    result = {
        "method": options.method,
        "scaling": round(statistics.median(one / two for one, two, _ in turns), 2),
        "bound": round(statistics.median(2 * one / apart for one, _, apart in turns), 2),
        "one": [round(one, 2) for one, _, _ in turns],
        "two": [round(two, 2) for _, two, _ in turns],
        "apart": [round(apart, 2) for _, _, apart in turns],
        "cores": os.cpu_count(),
    }
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
