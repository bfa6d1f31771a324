"""Our views of a whole batch against Pillow's, image by image: speed in one run, and equality level by level.

    python benchmarks/augment.py --json                 # the ratios, one JSON object, within two minutes
    python benchmarks/augment.py --exactness            # writes results/augment-exactness.jsonl

Both sides start from uint8 images in memory and end with normalized float32 tensors; one core. They take turns, and a
ratio is the median over turns of time by time. Time is that of the core, so that other processes do not count; the
first turns are left out, in which both sides still ask the system for memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pars.augment import ViewsConfig, build_views
from pars.augment.operations import (
    INDEX,
    OPERATIONS,
    apply_operations,
    autoaugment_amounts,
    fixmatch_amounts,
    operation_params,
)
from pars.engine import keep_freed_memory
from pars.seeds import generator

sys.path.append(str(Path(__file__).parent / "reference"))
from pillow_operations import from_pillow, operate, to_pillow
from pillow_views import MEAN, STD, pillow_strong, pillow_weak, to_tensor

RESULTS = Path(__file__).parent.parent / "results"
TURNS, WARM_UP = 40, 10
SECONDS = 35.0  # on a busy machine a cell ends then, with fewer turns
Pixels = npt.NDArray[np.uint8]


def speed(side: int, batch: int, strong: bool) -> dict[str, float]:
    """Images a second of both, and their ratio."""
    rng = np.random.default_rng(0)
    # Smooth images, not noise: histograms as photographs have them.
    small = torch.from_numpy(rng.integers(0, 256, (batch, 3, 8, 8)).astype(np.float32))
    images = torch.nn.functional.interpolate(small, size=(side, side), mode="bicubic").clamp(0, 255).to(torch.uint8)
    arrays = list(images.permute(0, 2, 3, 1).contiguous().numpy())
    config = ViewsConfig(strong="randaugment", pad_mode="reflect")
    views = build_views(config, image=True, shape=(3, side, side), mean=MEAN, std=STD)
    view = views.strong if strong else views.weak
    by_pillow = pillow_strong if strong else pillow_weak

    def ours(turn: int) -> None:
        params = view.draw(generator(0, "benchmark", step=turn), batch, (3, side, side))
        views.finish(view.apply(images, params))

    def theirs(turn: int) -> None:
        torch.stack([to_tensor(by_pillow(image)) for image in arrays])

    began, times = time.monotonic(), []
    for turn in range(WARM_UP + TURNS):
        times.append((seconds(ours, turn), seconds(theirs, turn)))
        if time.monotonic() - began > SECONDS:
            break
    times = times[min(WARM_UP, len(times) // 2) :]
    return {
        "ours": round(batch / statistics.median(a for a, _ in times)),
        "pillow": round(batch / statistics.median(b for _, b in times)),
        "ratio": round(statistics.median(b / a for a, b in times), 2),
    }


def seconds(work: Callable[[int], None], turn: int) -> float:
    began = time.thread_time()
    work(turn)
    return time.thread_time() - began


def ratios() -> dict[str, Any]:
    torch.set_num_threads(1)
    keep_freed_memory()  # as training does; it serves both sides
    cells = {
        "strong32": speed(32, 384, True),
        "strong224": speed(224, 32, True),
        "weak32": speed(32, 384, False),
    }
    return {key: cell["ratio"] for key, cell in cells.items()} | {"images_per_second": cells}


def exactness() -> list[dict[str, Any]]:
    """Every operation at every level of both published ranges, on random, constant, two-valued and narrow images."""
    rng = np.random.default_rng(0)
    lines = []
    for ranges, levels in ((fixmatch_amounts, np.arange(11) / 10), (autoaugment_amounts, np.arange(10) / 9)):
        for name in OPERATIONS:
            for level in levels:
                line = compare(name, ranges, float(level), rng)
                lines.append(
                    {
                        "operation": name,
                        "range": ranges.__name__.removesuffix("_amounts"),
                        "level": round(float(level), 3),
                    }
                    | line
                )
    return lines


def compare(name: str, ranges: Callable[..., Any], level: float, rng: np.random.Generator) -> dict[str, float]:
    images, greatest, amount = 0, 0, 0.0
    for shape in ((3, 32, 32), (1, 28, 28), (3, 224, 224), (3, 1, 9), (1, 9, 1)):
        x = np.stack(
            [
                *(rng.integers(0, 256, shape, dtype=np.uint8) for _ in range(3)),
                rng.choice(np.array([7, 201], np.uint8), shape),
                np.full(shape, 99, np.uint8),
            ]
        )
        op = np.full((len(x), 1), INDEX[name])
        for sign in (-1.0, 1.0):
            amounts = ranges(op, np.full(op.shape, level), np.full(op.shape, sign), shape, translate=0.3)
            amount = float(amounts[0, 0])
            done = apply_operations(torch.from_numpy(x), operation_params(op, amounts, shape)).numpy().astype(int)
            wanted = np.stack([from_pillow(operate(to_pillow(one), name, amount)) for one in x])
            greatest = max(greatest, int(np.abs(done - wanted).max()))
            images += len(x)
    return {"images": images, "greatest_difference": greatest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--exactness", action="store_true", help="write results/augment-exactness.jsonl instead")
    options = parser.parse_args()
    if options.exactness:
        lines = exactness()
        path = RESULTS / "augment-exactness.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        print(f"{path.name}: {len(lines)} lines, greatest difference {max(x['greatest_difference'] for x in lines)}")
        return
    result = ratios()
    if options.json:
        print(json.dumps(result))
        return
    for key, cell in result["images_per_second"].items():
        print(f"{key}: {cell['ratio']:.1f} times ({cell['ours']} against {cell['pillow']} images/s)")


if __name__ == "__main__":
    main()
