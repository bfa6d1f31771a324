"""A stand-in for Clothing1M: a few images in exactly its layout, of CIFAR-10 if that is there, else made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from pars import data
from pars.errors import UserError

CLASSES = (
    "T-Shirt",
    "Shirt",
    "Knitwear",
    "Chiffon",
    "Sweater",
    "Hoodie",
    "Windbreaker",
    "Jacket",
    "Downcoat",
    "Suit",
    "Shawl",
    "Dress",
    "Vest",
    "Underwear",
)


def write_clothing1m(root: Path, *, train: int = 56, validation: int = 14, test: int = 14, side: int = 300) -> Path:
    """Write key files, label files, class names and photographs; a third of the noisy labels are wrong."""
    n = train + validation + test
    pixels, right = _images(n)
    noisy = np.where(np.arange(n) % 3 == 0, (right + 1) % len(CLASSES), right)
    keys = [f"images/{i % 10}/{i % 7:02d}/{i},{i}.jpg" for i in range(n)]
    for i, key in enumerate(keys):
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        size = (side, side + 20 * (i % 3))
        Image.fromarray(pixels[i]).resize(size, Image.Resampling.BICUBIC).save(root / key)
    lists = {
        "noisy_train_key_list": keys[:train],
        "clean_train_key_list": keys[:3],
        "clean_val_key_list": keys[train : train + validation],
        "clean_test_key_list": keys[train + validation :],
        "noisy_label_kv": [f"{key} {label}" for key, label in zip(keys[:train], noisy[:train], strict=True)],
        # some of the noisy photographs have a clean label, too
        "clean_label_kv": [
            f"{key} {right[i]}" for i, key in enumerate(keys) if i < 3 or i >= train
        ],
        "category_names_eng": list(CLASSES),
        "category_names_chn": list(CLASSES),
    }  # fmt: skip
    for name, lines in lists.items():
        (root / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def _images(n: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    try:
        found = data.cifar10(data.data_root(), download=False).train
        pixels = np.asarray(found.inputs[:n], dtype=np.uint8).transpose(0, 2, 3, 1)
    except UserError:
        pixels = np.random.default_rng(1).integers(0, 255, (n, 8, 8, 3)).astype(np.uint8)
    return pixels, np.arange(n, dtype=np.int64) % len(CLASSES)
