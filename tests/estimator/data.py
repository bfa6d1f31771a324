"""Small tables with wrong labels, and classifiers that are trained on them in a moment."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
QUICK: dict[str, Any] = {"epochs": 4, "random_state": 0}


def clouds(n: int = 120, *, k: int = 3, d: int = 4, wrong: float = 0.0, seed: int = 0) -> tuple[Table, Labels, Labels]:
    """Gaussian clouds: rows, given labels of which a share is drawn again, right labels."""
    rng = np.random.default_rng(seed)
    centers = 4 * rng.standard_normal((k, d))
    true = rng.permutation(np.arange(n) % k)
    rows = centers[true] + rng.standard_normal((n, d))
    given = np.where(rng.random(n) < wrong, rng.integers(k, size=n), true)
    return rows, given, true


def small_images(n: int = 60, *, color: bool = False, seed: int = 0) -> tuple[npt.NDArray[np.uint8], Labels]:
    """8×8 images that are bright above (class 0) or below (class 1)."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    images = rng.integers(0, 80, (n, 8, 8, 3) if color else (n, 8, 8), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[4 * label : 4 * label + 4] += 150
    return images, labels
