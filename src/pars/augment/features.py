"""Views of feature vectors and table rows: feature dropout, noise, mixing; and views that were encoded beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pars.augment.view import Params, View, to_device
from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

_PICK = "pick"  # parameter of CachedView that gather_rows reads
_LEVELS = 2**8  # a dropout decision takes 8 random bits: drawing 16 costs more than the rest of a view


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureDropout:
    """Mix with another row, add Gaussian noise, then drop features. A step with weight 0 is skipped.

    dropout: fraction of values set to 0; the others are scaled up so that the expectation stays the same.
    noise: standard deviation of the noise, in units of `feature_std` [d] (of 1 without it).
    mix: largest weight of the other row: x + w (other - x), w uniform in 0..mix. The other row comes from `bank`
    [m, d], not from the batch: batches are split over processes, and a view must not depend on the split.

    Parameters: keep [n, d]; noise [n, d]; partner [n, d] (the other row itself), weight [n].

    >>> view = FeatureDropout(dropout=0.5)
    >>> view.apply(torch.ones(1, 6), view.draw(np.random.default_rng(4), 1, (6,)))
    tensor([[0., 0., 2., 2., 2., 0.]])
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
            size = n * int(np.prod(shape))
            # 64-bit words split in eight: faster than drawing bytes.
            words = rng.integers(0, 2**64, -(-size // 8), dtype=np.uint64).astype("<u8", copy=False)
            # Eight bits have few levels: a row has the one below or above, at random, so that the mean is exact.
            level = (_dropped(self.dropout) * _LEVELS + rng.random(n)).astype(np.uint8)
            keep = words.view(np.uint8)[:size].reshape(n, -1) >= level[:, None]
            params["keep"] = torch.from_numpy(keep.reshape(n, *shape))
        return params

    def apply(self, x: Tensor, params: Params) -> Tensor:
        params = to_device(params, x)
        if "partner" in params:
            weight = params["weight"].view(-1, *[1] * (x.ndim - 1))
            x = x + weight * (params["partner"] - x)
        if "noise" in params:
            x = x + params["noise"]
        if "keep" in params:
            # torch multiplies by bytes thrice as fast as by bool
            x = (x * (1 / (1 - _dropped(self.dropout)))).mul_(params["keep"].view(torch.uint8))
        return x


def _dropped(dropout: float) -> float:
    """The fraction that is dropped: never all."""
    return min(dropout, (_LEVELS - 1) / _LEVELS)


@dataclass(frozen=True, eq=False)
class CachedView:
    """One of a row's cached views `first` … `first + count - 1`, chosen at random; then the view `then` of it.

    Cached views were made of the raw rows and encoded before training (`pars encode --views`).
    Parameters: pick [n], the index of the cached view; and the parameters of `then`. The caller passes `apply` the
    output of `gather_rows`, which copies the picked views only: copying all views of a batch costs as much as a small
    network.

    >>> from pars.augment.view import Identity
    >>> view = CachedView(2, 2, Identity())
    >>> sorted(set(view.draw(np.random.default_rng(0), 100, (8,))["pick"].tolist()))
    [2, 3]
    """

    first: int
    count: int
    then: View

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        pick = torch.from_numpy(rng.integers(self.first, self.first + self.count, n))
        return {_PICK: pick, **self.then.draw(rng, n, shape)}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        return self.then.apply(x, {name: value for name, value in params.items() if name != _PICK})


def gather_rows(inputs: Tensor, cached: Tensor | None, rows: Tensor, params: Params) -> Tensor:
    """Return the samples that a view with these parameters is applied to: the rows, or their picked cached views.

    Shapes: inputs [n, ...], cached [n, 2N, ...], rows [b] -> [b, ...].

    >>> inputs, cached = torch.zeros(3, 1), torch.arange(6.0).view(3, 2, 1)
    >>> gather_rows(inputs, cached, torch.tensor([0, 2]), {"pick": torch.tensor([1, 0])})[:, 0]
    tensor([1., 4.])
    """
    if _PICK not in params or cached is None:
        # Rows on disk have no index_select, which is four times as fast as an index.
        return inputs.index_select(0, rows) if isinstance(inputs, torch.Tensor) else inputs[rows]
    return cached[rows, params[_PICK].to(rows.device)]
