"""Views that were made of the raw rows before these were encoded, and are kept beside the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pars.augment.view import PICK, Params, View
from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Cached:
    """One of a row's stored views `first` … `first + count - 1`, drawn anew each time; then another view of it.

    Parameters: pick [n], which of the stored views; and those of `then`. Whoever gathers the rows takes the picked one
    instead of the row itself (`source`): to copy all views of a batch and throw all but one away would cost as much as
    a small network.

    >>> from pars.augment.view import Identity
    >>> view = Cached(2, 2, Identity())
    >>> sorted(set(view.draw(np.random.default_rng(0), 100, (8,))["pick"].tolist()))
    [2, 3]
    """

    first: int
    count: int
    then: View

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        pick = torch.from_numpy(rng.integers(self.first, self.first + self.count, n))
        return {PICK: pick, **self.then.draw(rng, n, shape)}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        return self.then.apply(x, {name: value for name, value in params.items() if name != PICK})


def source(inputs: Tensor, cached: Tensor | None, rows: Tensor, params: Params) -> Tensor:
    """What a view of these rows is made of: the view that it picks, or the rows themselves.

    Shapes: inputs [n, ...], cached [n, 2N, ...], rows [b] -> [b, ...].

    >>> inputs, cached = torch.zeros(3, 1), torch.arange(6.0).view(3, 2, 1)
    >>> source(inputs, cached, torch.tensor([0, 2]), {"pick": torch.tensor([1, 0])})[:, 0]
    tensor([1., 4.])
    """
    if PICK not in params or cached is None:
        return inputs[rows]
    return cached[rows, params[PICK].to(rows.device)]
