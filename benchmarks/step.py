"""What a PARS step costs: how much of it is not the network, and how it compares with a straightforward loop.

    python benchmarks/step.py --json        # one JSON object, within two minutes

outside: share of a step's time outside the network's forward and backward (drawing rows and parameters, gather, views,
normalising, losses, optimiser, average, meters), preact_resnet18 of width 16, batch 128 + 384.
speedup: training images a second against the loop most public code has (a data loader with Pillow views in worker
processes, three separate forwards, an average kept by a Python loop), same losses, same network. `speedup` is with the
small CNN of the preset cifar10-small, `speedup_preact` with preact_resnet18 of width 16. The two take turns in one
process; a ratio is the median over turns. Images are random: nothing here depends on what they show.
kept_memory: speed of our steps with the small CNN after freed memory is kept (as training does) over that before, one
after the other, for it cannot be undone.
"""

from __future__ import annotations

import argparse
import copy
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
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, Dataset

from pars import data, models, run
from pars.engine import Trainer, keep_freed_memory
from pars.engine.order import Rows
from pars.losses import class_balance, negative_learning, parse, positive_learning
from pars.methods.pars import PARS
from pars.noise import NoiseConfig

sys.path.append(str(Path(__file__).parent / "reference"))
from pillow_views import pillow_strong, pillow_weak, to_tensor

ROWS, CLASSES, BATCH = 2_048, 10, 128


def configuration(name: str, width: int) -> run.RunConfig:
    """All main stage, the paper's views."""
    config = run.preset("cifar10-small")(NoiseConfig(), "pars")
    return replace(
        config,
        model=models.ModelConfig(name=name, width=width),  # type: ignore[arg-type]
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
        self.trainer: Trainer = run.build(config, run.prepare(config, dataset), None)
        self.stage = self.trainer.schedule[-1]
        self.batches = self.epochs()
        self.network = 0.0  # seconds inside it
        for net in self.trainer.nets:
            for module in (net.module, net.average):
                self.watch(module)

    def epochs(self) -> Iterator[dict[str, Rows]]:
        orders = self.stage.orders({})
        for epoch in range(self.stage.stage.epochs):
            batches = {name: order.epoch(epoch) for name, order in orders.items()}
            for step in range(self.trainer.steps):
                self.trainer.epoch, self.trainer.step = epoch, step
                yield {name: of_name[step] for name, of_name in batches.items()}

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


class Pictures(Dataset[tuple[Tensor, ...]]):
    """What a data loader's worker does for one row."""

    def __init__(self, inputs: np.ndarray[Any, np.dtype[np.uint8]], labels: Any, strong: bool) -> None:
        self.pictures, self.labels, self.strong = inputs.transpose(0, 2, 3, 1).copy(), labels, strong

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, row: int) -> tuple[Tensor, ...]:
        weak = to_tensor(pillow_weak(self.pictures[row]))
        strong = to_tensor(pillow_strong(self.pictures[row])) if self.strong else weak
        return weak, strong, torch.tensor(self.labels[row])


class Straightforward:
    """The loop as it is usually written."""

    def __init__(self, config: run.RunConfig, dataset: data.Dataset) -> None:
        assert isinstance(config.method, PARS)
        self.method, self.train = config.method, config.train
        self.net = models.build(config.model, (3, 32, 32), CLASSES, seed=0).train()
        self.average = copy.deepcopy(self.net).eval()
        self.optimiser = optim.SGD(
            self.net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True, foreach=False
        )
        inputs, labels = dataset.train.inputs, dataset.train.labels
        self.labelled = forever(Pictures(np.asarray(inputs, np.uint8), labels, strong=False), BATCH)
        self.unlabelled = forever(Pictures(np.asarray(inputs, np.uint8), labels, strong=True), 3 * BATCH)

    def steps(self, n: int) -> float:
        began = time.perf_counter()
        for _ in range(n):
            self.step()
        return time.perf_counter() - began

    def step(self) -> None:
        m = self.method
        weak, _, labels = next(self.labelled)
        weak_u, strong_u, _ = next(self.unlabelled)
        raw = self.net(weak)
        with torch.no_grad():
            guess = self.average(weak_u).softmax(dim=1)
        student = self.net(strong_u)
        sure = raw.softmax(dim=1).amax(dim=1) > m.tau
        loss = parse(m.robust)(raw, labels).mean()
        loss = loss + m.lambda_N * self.subset_mean(negative_learning(raw, other(labels)), ~sure)
        confidence, z = guess.max(dim=1)
        sure = confidence > m.tau
        loss = loss + m.lambda_S * self.subset_mean(positive_learning(student, z), sure)
        loss = loss + m.lambda_S * m.lambda_N * self.subset_mean(negative_learning(student, other(z)), ~sure)
        loss = loss + m.lambda_R * class_balance(student.softmax(dim=1).mean(dim=0))
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        with torch.no_grad():
            for kept, current in zip(self.average.parameters(), self.net.parameters(), strict=True):
                kept.mul_(self.train.ema).add_(current, alpha=1 - self.train.ema)
            for buffer, now in zip(self.average.buffers(), self.net.buffers(), strict=True):
                buffer.copy_(now)

    def subset_mean(self, values: Tensor, subset: Tensor) -> Tensor:
        return (values * subset).sum() / max(subset.sum().item(), self.method.min_share * len(values), 1)


def other(labels: Tensor) -> Tensor:
    return (labels + torch.randint(1, CLASSES, labels.shape)) % CLASSES


def forever(rows: Pictures, batch: int) -> Iterator[list[Tensor]]:
    """Batches without end. Two workers: this is written for machines with two cores."""
    loader = DataLoader(rows, batch, shuffle=True, drop_last=True, num_workers=2, persistent_workers=True)
    while True:
        yield from loader


def compare(name: str, width: int, steps: int, turns: int) -> dict[str, float]:
    torch.manual_seed(0)
    random.seed(0)
    config, dataset = configuration(name, width), images()
    ours, theirs = Ours(config, dataset), Straightforward(config, dataset)
    ours.steps(1), theirs.steps(2)  # warm caches and workers
    outside, ratios, rates = [], [], []
    for _ in range(turns):
        ours.network = 0.0
        seconds = ours.steps(steps)
        outside.append(1 - ours.network / seconds)
        ratios.append(theirs.steps(steps) / seconds)
        rates.append(4 * BATCH * steps / seconds)
    return {
        "outside": round(statistics.median(outside), 3),
        "speedup": round(statistics.median(ratios), 2),
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
    small = compare("small_cnn", 16, steps=8, turns=5)
    preact = compare("preact_resnet18", 16, steps=2, turns=3)
    result = {
        "outside": preact["outside"],
        "speedup": small["speedup"],
        "speedup_preact": preact["speedup"],
        "outside_small_cnn": small["outside"],
        "kept_memory": kept,
        "images_per_second": {"small_cnn": small["images_per_second"], "preact_resnet18": preact["images_per_second"]},
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(result) if options.json else "\n".join(f"{key}: {value}" for key, value in result.items()))


if __name__ == "__main__":
    main()
