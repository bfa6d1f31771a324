"""RandAugment: a few operations drawn for each image, after crop and flip (Cubuk et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from pars.augment.amounts import centered, plain
from pars.augment.cutout import cut_out, cutout_boxes
from pars.augment.operations import NUMBER, RANDAUGMENT, perform, program
from pars.augment.view import Crop, Params
from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

Flavor = Literal["fixmatch", "uniform", "fixed"]
GRAY = 127  # what FixMatch paints a cutout with
TRANSLATE = 0.3


@dataclass(frozen=True, kw_only=True)
class RandAugment:
    """`crop`, then `n` operations out of 14, drawn with replacement, then a gray cutout.

    | flavor | level of an operation, of 10 | done with probability | cutout |
    |---|---|---|---|
    | fixmatch | 1 … `magnitude` - 1, whole | 1/2 | side `cutout` |
    | uniform (TorchSSL, USB, AugDesc) | anything in 0..10 | 1 | side uniform in 0..`cutout` |
    | fixed (RandAugment's own n, m) | `magnitude` | 1 | side `cutout` |

    Parameters, besides those of the crop: op, amount [n, k], map [n, k, 6] (see `operations`), cutout [n, 4].
    """

    crop: Crop
    n: int = 2
    magnitude: int = 10
    flavor: Flavor = "fixmatch"
    cutout: int = 16
    fill: int = 0  # gray of what geometric operations move in

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        params = self.crop.draw(rng, n, shape)
        shape = self.crop.shape_after(shape)
        op = rng.integers(0, RANDAUGMENT, (n, self.n))
        sign = rng.choice([-1.0, 1.0], op.shape)
        match self.flavor:
            case "fixmatch":
                level = rng.integers(1, self.magnitude, op.shape) / 10
                op = np.where(rng.integers(0, 2, op.shape) == 1, op, NUMBER["identity"])
            case "uniform":
                level = rng.random(op.shape)
            case "fixed":
                level = np.full(op.shape, self.magnitude / 10)
        amounts = centered if self.flavor == "fixed" else plain
        amount = amounts(op, level, sign, shape, translate=TRANSLATE)
        side = rng.integers(0, self.cutout + 1, n) if self.flavor == "uniform" else np.full(n, self.cutout)
        return params | program(op, amount, shape) | {"cutout": cutout_boxes(rng, side, shape)}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        x = perform(self.crop.apply(x, params), params, self.fill)
        if not self.cutout:
            return x
        fill = torch.full((x.shape[1],), GRAY, dtype=torch.uint8, device=x.device)
        return cut_out(x, params["cutout"].to(x.device), fill)
