"""What a PARS step costs: how much of it is not the network, and how it compares with a straightforward loop.

    python benchmarks/step.py --json        # one JSON object, within two minutes

outside: share of a step's time outside the network's forward and backward (drawing rows and parameters, gather, views,
normalizing, losses, optimizer, average, meters), preact_resnet18 of width 16, batch 128 + 384.
speedup: training images a second against a straightforward loop (a data loader with Pillow views in worker processes,
three separate forwards, an average kept by a Python loop), same losses, same network. The weak prediction is the
trained network's own in training mode, its logits detached, as in public code; backward does not go through it.
speedup_joint: against the same loop with FixMatch's own forward, one over labeled, weak and strong images, which does
go back through the weak ones, in vain.
Both are with the small CNN of the preset cifar10-small; the keys ending in _preact with preact_resnet18 of width 16.
All take turns in one process; a ratio is the median over turns. Images are random: nothing depends on what they show.
kept_memory: speed of our steps with the small CNN after freed memory is kept (as training does) over that before, one
after the other, for it cannot be undone.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pars import data, models, run
from pars.engine import Trainer, keep_freed_memory
from pars.engine.batches import Rows
from pars.methods.pars import PARS
from pars.noise import NoiseConfig

sys.path.append(str(Path(__file__).parent / "reference"))
from straightforward import Straightforward

ROWS, CLASSES, BATCH = 2_048, 10, 128


def configuration(name: str, width: int) -> run.RunConfig:
    """All main stage, the paper's views."""
    config = run.preset("cifar10-small")(NoiseConfig(), "pars")
    return replace(
        config,
        model=models.ModelConfig(name=name, width=width),
        views=replace(config.views, strong="randaugment", pad_mode="reflect"),
        train=replace(config.train, epochs=1_000, batch_size=BATCH),
        method=PARS(warm_up=0),
    )


def images() -> data.Dataset:
    rng = np.random.default_rng(0)
    inputs = rng.integers(0, 256, (ROWS, 3, 32, 32), dtype=np.uint8)
    return data.Dataset(
        name="random",
        train=data.Split(inputs, rng.integers(0, CLASSES, ROWS)),
        test=None,
        classes=tuple(map(str, range(CLASSES))),
        mean=(0.5,) * 3,
        std=(0.25,) * 3,
    )


class Ours:
    """The trainer, a step at a time."""

    def __init__(self, config: run.RunConfig, dataset: data.Dataset) -> None:
        self.trainer: Trainer = run.build_trainer(config, run.load_training_data(config, dataset), None)
        self.stage = self.trainer.runner.schedule[-1]
        self.batches = self.epochs()
        self.network = 0.0  # seconds inside it
        for net in self.trainer.nets:
            for module in (net.module, net.average):
                self.watch(module)

    def epochs(self) -> Iterator[dict[str, Rows]]:
        orders = self.trainer.runner.layout.orders(self.stage.stage.draws, {})
        for epoch in range(self.stage.stage.epochs):
            for step in range(self.trainer.steps):
                self.trainer.epoch, self.trainer.step = epoch, step
                yield {name: order.batch(epoch, step) for name, order in orders.items()}

    def watch(self, module: nn.Module) -> None:
        """Count the time of outermost forwards; backward is counted in `steps`."""
        plain = module.forward

        def timed(x: Tensor) -> Tensor:
            began = time.perf_counter()
            out: Tensor = plain(x)
            self.network += time.perf_counter() - began
            return out

        module.forward = timed

    def steps(self, n: int) -> float:
        """Seconds of n steps."""
        backward = Tensor.backward

        def timed(*args: Any, **kwargs: Any) -> None:
            began = time.perf_counter()
            backward(*args, **kwargs)  # type: ignore[no-untyped-call]
            self.network += time.perf_counter() - began

        Tensor.backward = timed  # type: ignore[method-assign]
        try:
            began = time.perf_counter()
            for _ in range(n):
                self.trainer._run_step(self.stage, next(self.batches))
            return time.perf_counter() - began
        finally:
            Tensor.backward = backward  # type: ignore[method-assign]


def compare(name: str, width: int, *, steps: int, first: int, turns: int, most_seconds: float) -> dict[str, float]:
    """Up to so many turns; on a busy machine fewer."""
    torch.manual_seed(0)
    random.seed(0)
    config, dataset = configuration(name, width), images()
    ours, theirs = Ours(config, dataset), Straightforward(config, dataset)
    began = time.monotonic()
    ours.steps(1)  # warm caches
    outside, apart, joint, rates = [], [], [], []
    for _ in range(turns):
        ours.network = 0.0
        seconds = ours.steps(steps)
        outside.append(1 - ours.network / seconds)
        apart.append(theirs.steps(steps, first=first, joint=False) / seconds)
        joint.append(theirs.steps(steps, first=first, joint=True) / seconds)
        rates.append(4 * BATCH * steps / seconds)
        if time.monotonic() - began > most_seconds:
            break
    return {
        "outside": round(statistics.median(outside), 3),
        "speedup": round(statistics.median(apart), 2),
        "speedup_joint": round(statistics.median(joint), 2),
        "images_per_second": round(statistics.median(rates)),
    }


def kept_memory(turns: int) -> float:
    """What keeping freed memory is worth; it stays so."""
    ours = Ours(configuration("small_cnn", 16), images())
    ours.steps(3)
    before = statistics.median(ours.steps(4) for _ in range(turns))
    keep_freed_memory()
    ours.steps(3)
    return round(before / statistics.median(ours.steps(4) for _ in range(turns)), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    kept = kept_memory(turns=5)  # from here on it serves both sides
    small = compare("small_cnn", 16, steps=5, first=4, turns=5, most_seconds=25)
    preact = compare("preact_resnet18", 16, steps=2, first=1, turns=3, most_seconds=35)
    result = {
        "outside": preact["outside"],
        "speedup": small["speedup"],
        "speedup_joint": small["speedup_joint"],
        "speedup_preact": preact["speedup"],
        "speedup_joint_preact": preact["speedup_joint"],
        "outside_small_cnn": small["outside"],
        "kept_memory": kept,
        "images_per_second": {"small_cnn": small["images_per_second"], "preact_resnet18": preact["images_per_second"]},
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(result) if options.json else "\n".join(f"{key}: {value}" for key, value in result.items()))


if __name__ == "__main__":
    main()
