"""Views of feature vectors and table rows: dropout of inputs, noise, and a step towards another row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pars.augment.view import Params, to_device
from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

LEVELS = 2**16  # a dropout decision costs 16 random bits: four times fewer than a float64


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureDropout:
    """Mix, then add noise, then drop. What has weight 0 costs nothing.

    dropout: share of values set to 0; the others are divided by what is kept, so the expectation stays.
    noise: standard deviation of Gaussian noise, in units of `feature_std` [d] (of 1 without it).
    mix: greatest weight of another row: x + w (other - x), w uniform in 0..mix. The other row is taken from `bank`
    [m, d], given once, not from the batch: a batch is cut over processes, and a row's view must not depend on the cut.

    Parameters: keep [n, d]; noise [n, d]; partner [n, d] (the other row itself), weight [n].
    """

    dropout: float
    noise: float = 0.0
    mix: float = 0.0
    feature_std: npt.NDArray[np.float32] | None = None
    bank: npt.NDArray[np.float32] | None = None

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        params: Params = {}
        if self.mix > 0 and self.bank is not None:
            params["weight"] = torch.from_numpy(rng.uniform(0, self.mix, n).astype(np.float32))
            params["partner"] = torch.from_numpy(self.bank[rng.integers(0, len(self.bank), n)])
        if self.noise > 0:
            noise = rng.standard_normal((n, *shape), dtype=np.float32)
            noise *= np.float32(self.noise) if self.feature_std is None else np.float32(self.noise) * self.feature_std
            params["noise"] = torch.from_numpy(noise)
        if self.dropout > 0:
            params["keep"] = torch.from_numpy(keep_mask(rng, (n, *shape), self.dropout))
        return params

    def apply(self, x: Tensor, params: Params) -> Tensor:
        params = to_device(params, x)
        if "partner" in params:
            weight = params["weight"].view(-1, *[1] * (x.ndim - 1))
            x = x + weight * (params["partner"] - x)
        if "noise" in params:
            x = x + params["noise"]
        if "keep" in params:
            # Dividing by the share that is really kept, a multiple of 2^-16, keeps the expectation exact.
            x = (x * (LEVELS / (LEVELS - _threshold(self.dropout)))).mul_(params["keep"])
        return x


def keep_mask(rng: np.random.Generator, shape: tuple[int, ...], dropout: float) -> npt.NDArray[np.bool_]:
    """Which values stay, each with probability 1 - dropout (to 2^-16).

    >>> bool(keep_mask(np.random.default_rng(0), (3, 5), 0.0).all())
    True
    """
    size = int(np.prod(shape))
    # Whole 64-bit words cut in four: twice as fast as asking for 16-bit integers.
    words = rng.integers(0, 2**64, -(-size // 4), dtype=np.uint64).astype("<u8", copy=False)
    return (words.view("<u2")[:size] >= _threshold(dropout)).reshape(shape)


def _threshold(dropout: float) -> int:
    return min(round(dropout * LEVELS), LEVELS - 1)
