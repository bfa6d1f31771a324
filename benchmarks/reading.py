"""Training steps on packed photographs against a plain loop over files: images a second of the whole step.

    python benchmarks/reading.py --json

Both train the same small network on the same photographs, 256 pixels on their shorter side, with batches of 32 at 224
pixels, on one thread and one further process that decodes. They take turns; a ratio is the median over turns.

plain   a folder of JPEG files behind torch's DataLoader: one worker opens files, makes views with Pillow (random crop
        and flip; with two views also RandAugment) and turns them into normalized tensors
packed  `pars pack` of the same folder: one process decodes, views are made per batch in the training process

`one view` is what cross-entropy needs, `two views` what PARS and FixMatch do: a weak and a strong view of every image.
`waiting` is the share of our step in which it waits for decoded images. Adds a line to results/reading.jsonl.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from pars import data
from pars.augment import ViewsConfig, build_views
from pars.cli.main import main as pars_command
from pars.data import DiskImages
from pars.engine.batches import DiskRows, Feed
from pars.models import ModelConfig, build_model

sys.path.append(str(Path(__file__).parent / "reference"))
from pillow_views import MEAN, STD, randaugmented, to_tensor

OUT = Path(__file__).resolve().parents[1] / "results" / "reading.jsonl"
SIDE, BATCH, CLASSES = 224, 32, 4
Views = tuple[Tensor, ...]


class Files(Dataset[tuple[Views, int]]):
    """Files class/name.jpg and Pillow's views of them, as training scripts have it."""

    def __init__(self, folder: Path, two: bool) -> None:
        self.files, self.two = sorted(folder.glob("*/*.jpg")), two

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, row: int) -> tuple[Views, int]:
        path = self.files[row]
        image = Image.open(path).convert("RGB")
        views = [to_tensor(cropped(image))]
        if self.two:
            views.append(to_tensor(randaugmented(cropped(image))))
        return tuple(views), int(path.parent.name)


def cropped(image: Image.Image) -> Image.Image:
    left, top = (random.randint(0, length - SIDE) for length in image.size)
    image = image.crop((left, top, left + SIDE, top + SIDE))
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image


def write_photographs(folder: Path, n: int) -> None:
    """Smooth images with some grain, of sizes and bytes like those of photographs at 256 pixels."""
    rng = np.random.default_rng(0)
    for row in range(n):
        place = folder / str(row % CLASSES)
        place.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8))
        grain = rng.normal(0, 6, (256, 320, 3))
        pixels = np.asarray(small.resize((320, 256), Image.Resampling.BICUBIC)) + grain
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(place / f"{row}.jpg", quality=90)


class Step:
    """The training step that both have: a small network, SGD."""

    def __init__(self) -> None:
        self.net: nn.Module = build_model(ModelConfig(name="small_cnn", width=4), (3, SIDE, SIDE), CLASSES, seed=0)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9)

    def __call__(self, views: Views, labels: Tensor) -> None:
        loss = sum(nn.functional.cross_entropy(self.net(view), labels) for view in views)
        assert isinstance(loss, Tensor)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


def plain(folder: Path, two: bool) -> Iterator[float]:
    """Seconds of each step."""
    loader = DataLoader(Files(folder, two), BATCH, shuffle=True, num_workers=1, drop_last=True, persistent_workers=True)
    step = Step()
    while True:
        began = time.perf_counter()
        for views, labels in loader:
            step(tuple(view.float() for view in views), labels)
            yield (now := time.perf_counter()) - began
            began = now


def packed(pack: Path, two: bool, waits: list[float]) -> Iterator[float]:
    dataset = data.load(data.DataConfig(name=str(pack)))
    images = dataset.train.inputs
    assert isinstance(images, DiskImages)
    config = ViewsConfig(size=SIDE, pad=0, strong="randaugment")
    views = build_views(config, image=True, shape=images.shape[1:], mean=MEAN, std=STD)
    rows = DiskRows(DiskImages(images.store, images.rows, images.side, workers=1), "cpu")
    feed = Feed(rows, torch.from_numpy(dataset.train.labels), views, seed=0, device="cpu")
    step, count, rng = Step(), 0, np.random.default_rng(0)
    order = rng.permutation(len(images))
    batches = [order[start : start + BATCH] for start in range(0, len(order) - BATCH + 1, BATCH)]
    while True:
        began = time.perf_counter()
        now, following = (batches[number % len(batches)] for number in (count, count + 1))
        rows[torch.from_numpy(now)]
        waits.append(time.perf_counter() - began)
        rows.prefetch(following)
        batch = feed.batch("labeled", now, 0, count)
        step((batch.weak, batch.strong) if two else (batch.weak,), batch.labels)
        count += 1
        yield time.perf_counter() - began


def measured(folder: Path, pack: Path, two: bool, turns: int, steps: int) -> dict[str, float]:
    waits: list[float] = []
    theirs, ours = plain(folder, two), packed(pack, two, waits)
    for _ in range(3):
        next(theirs), next(ours)
    waits.clear()
    times = []
    for _ in range(turns):
        times.append([sum(next(each) for _ in range(steps)) for each in (ours, theirs)])
    return {
        "packed": round(steps * BATCH / statistics.median(a for a, _ in times), 1),
        "plain": round(steps * BATCH / statistics.median(b for _, b in times), 1),
        "ratio": round(statistics.median(b / a for a, b in times), 2),
        "waiting": round(sum(waits) / sum(a for a, _ in times), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pictures", type=int, default=640)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=6, help="of each side in a turn")
    options = parser.parse_args()
    torch.set_num_threads(1)
    line: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        folder, pack = Path(place) / "photos", Path(place) / "pack"
        write_photographs(folder, options.pictures)
        assert pars_command(["pack", str(folder), str(pack)]) == 0
        for name, two in (("one view", False), ("two views", True)):
            line[name] = measured(folder, pack, two, options.turns, options.steps)
            print(name, line[name], file=sys.stderr, flush=True)
    line |= {"pictures": options.pictures, "batch": BATCH, "side": SIDE, "command": "python benchmarks/reading.py"}
    with OUT.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    if options.json:
        print(json.dumps(line))


if __name__ == "__main__":
    main()
