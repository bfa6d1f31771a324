"""Views of texts as token numbers: some tokens are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pars.augment.view import Params, to_device
from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class TokenDropout:
    """Leave out this fraction of a text's tokens; the network does not look at them, the others keep their places.

    The first and the last token always stay: many networks mark the ends of a text by them.
    Parameters: keep [n, T].

    >>> x = torch.tensor([[101, 5, 6, 7, 102, -1]])
    >>> TokenDropout(0.5).apply(x, {"keep": torch.tensor([[False, False, True, False, False, False]])})
    tensor([[101,  -1,   6,  -1, 102,  -1]])
    """

    dropout: float

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        return {"keep": torch.from_numpy(rng.random((n, *shape), dtype=np.float32) >= self.dropout)}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        keep = to_device(params, x)["keep"].clone()
        last = ((x >= 0).sum(dim=1) - 1).clamp_min(0)
        keep[:, 0] = True
        keep.scatter_(1, last[:, None], True)
        return x.where(keep, torch.full_like(x, -1))
