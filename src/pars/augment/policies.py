"""RandAugment (Cubuk et al. 2019) and AutoAugment (Cubuk et al. 2018): which operations an image gets, after a crop."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from pars.augment.crop import cut_out, draw_cutout
from pars.augment.operations import (
    INDEX,
    N_RANDAUGMENT,
    Floats,
    Ints,
    apply_operations,
    autoaugment_amounts,
    fixmatch_amounts,
    operation_params,
)
from pars.augment.view import Crop, Params
from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

Flavor = Literal["fixmatch", "uniform", "fixed"]
Policy = Literal["cifar10", "imagenet"]

CUTOUT_GRAY = 127  # FixMatch's color of a cutout
_RANDAUGMENT_TRANSLATE = 0.3
_AUTOAUGMENT_TRANSLATE = 150 / 331  # the policies were found with shifts of up to 150 of 331 pixels
_AUTOAUGMENT_LEVELS = 9  # levels run from 0 to 9


@dataclass(frozen=True, kw_only=True)
class RandAugment:
    """`crop`, then `n` operations out of 14, drawn with replacement, then a gray cutout.

    | flavor | level of an operation, out of 10 | probability | cutout |
    |---|---|---|---|
    | fixmatch | 1 … `magnitude` - 1, whole | 1/2 | side `cutout` |
    | uniform (TorchSSL, USB, AugDesc) | uniform in 0..10 | 1 | side uniform in 0..`cutout` |
    | fixed (the RandAugment paper: n, m) | `magnitude` | 1 | side `cutout` |

    Parameters, in addition to those of the crop: op, amount [n, k], map [n, k, 6] (`operations.operation_params`),
    cutout [n, 4].
    """

    crop: Crop
    n: int = 2
    magnitude: int = 10
    flavor: Flavor = "fixmatch"
    cutout: int = 16
    fill: int = 0  # gray level of pixels from outside the image

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        params = self.crop.draw(rng, n, shape)
        shape = self.crop.output_shape(shape)
        op = rng.integers(0, N_RANDAUGMENT, (n, self.n))
        sign = rng.choice([-1.0, 1.0], op.shape)
        match self.flavor:
            case "fixmatch":
                level = rng.integers(1, self.magnitude, op.shape) / 10
                op = np.where(rng.integers(0, 2, op.shape) == 1, op, INDEX["identity"])
            case "uniform":
                level = rng.random(op.shape)
            case "fixed":
                level = np.full(op.shape, self.magnitude / 10)
        amounts = autoaugment_amounts if self.flavor == "fixed" else fixmatch_amounts
        amount = amounts(op, level, sign, shape, translate=_RANDAUGMENT_TRANSLATE)
        side = rng.integers(0, self.cutout + 1, n) if self.flavor == "uniform" else np.full(n, self.cutout)
        return params | operation_params(op, amount, shape) | {"cutout": draw_cutout(rng, side, shape)}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        x = apply_operations(self.crop.apply(x, params), params, self.fill)
        if not self.cutout:
            return x
        fill = torch.full((x.shape[1],), CUTOUT_GRAY, dtype=torch.uint8, device=x.device)
        return cut_out(x, params["cutout"].to(x.device), fill)


@dataclass(frozen=True, kw_only=True)
class AutoAugment:
    """`crop`, then one random sub-policy: two operations, each with its probability and level.

    Parameters, in addition to those of the crop: op, amount [n, 2], map [n, 2, 6] (`operations.operation_params`).
    """

    crop: Crop
    policy: Policy = "cifar10"
    fill: int = 128

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        params = self.crop.draw(rng, n, shape)
        shape = self.crop.output_shape(shape)
        ops, probability, levels = sub_policies(self.policy)
        drawn = rng.integers(0, len(ops), n)
        sign = rng.choice([-1.0, 1.0], (n, 2))
        used = rng.random((n, 2)) < probability[drawn]
        op = np.where(used, ops[drawn], INDEX["identity"])
        amount = autoaugment_amounts(op, levels[drawn], sign, shape, translate=_AUTOAUGMENT_TRANSLATE)
        return params | operation_params(op, amount, shape)

    def apply(self, x: Tensor, params: Params) -> Tensor:
        return apply_operations(self.crop.apply(x, params), params, self.fill)


@functools.cache
def sub_policies(policy: Policy) -> tuple[Ints, Floats, Floats]:
    """Return the operations, probabilities and levels in 0..1 of a policy, each [25, 2].

    >>> [values[2].tolist() for values in sub_policies("cifar10")[:2]]
    [[8, 8], [0.8, 0.9]]
    """
    words = np.array([line.split() for line in (_CIFAR10 if policy == "cifar10" else _IMAGENET).split("\n") if line])
    op = np.vectorize(INDEX.__getitem__, otypes=[np.int64])(words[:, 0::3])
    return op, words[:, 1::3].astype(np.float64), words[:, 2::3].astype(np.float64) / _AUTOAUGMENT_LEVELS


# The paper's appendix, one sub-policy per line: operation, probability, level, twice. Operations without an amount
# have a level there, too.
_CIFAR10 = """
invert 0.1 7        contrast 0.2 6
rotate 0.7 2        translate-x 0.3 9
sharpness 0.8 1     sharpness 0.9 3
shear-y 0.5 8       translate-y 0.7 9
autocontrast 0.5 8  equalize 0.9 2
shear-y 0.2 7       posterize 0.3 7
color 0.4 3         brightness 0.6 7
sharpness 0.3 9     brightness 0.7 9
equalize 0.6 5      equalize 0.5 1
contrast 0.6 7      sharpness 0.6 5
color 0.7 7         translate-x 0.5 8
equalize 0.3 7      autocontrast 0.4 8
translate-y 0.4 3   sharpness 0.2 6
brightness 0.9 6    color 0.2 8
solarize 0.5 2      invert 0.0 3
equalize 0.2 0      autocontrast 0.6 0
equalize 0.2 8      equalize 0.6 4
color 0.9 9         equalize 0.6 6
autocontrast 0.8 4  solarize 0.2 8
brightness 0.1 3    color 0.7 0
solarize 0.4 5      autocontrast 0.9 3
translate-y 0.9 9   translate-y 0.7 9
autocontrast 0.9 2  solarize 0.8 3
equalize 0.8 8      invert 0.1 3
translate-y 0.7 9   autocontrast 0.9 1
"""
_IMAGENET = """
posterize 0.4 8     rotate 0.6 9
solarize 0.6 5      autocontrast 0.6 5
equalize 0.8 8      equalize 0.6 3
posterize 0.6 7     posterize 0.6 6
equalize 0.4 7      solarize 0.2 4
equalize 0.4 4      rotate 0.8 8
solarize 0.6 3      equalize 0.6 7
posterize 0.8 5     equalize 1.0 2
rotate 0.2 3        solarize 0.6 8
equalize 0.6 8      posterize 0.4 6
rotate 0.8 8        color 0.4 0
rotate 0.4 9        equalize 0.6 2
equalize 0.0 7      equalize 0.8 8
invert 0.6 4        equalize 1.0 8
color 0.6 4         contrast 1.0 8
rotate 0.8 8        color 1.0 2
color 0.8 8         solarize 0.8 7
sharpness 0.4 7     invert 0.6 8
shear-x 0.6 5       equalize 1.0 9
color 0.4 0         equalize 0.6 3
equalize 0.4 7      solarize 0.2 4
solarize 0.6 5      autocontrast 0.6 5
invert 0.6 4        equalize 1.0 8
color 0.6 4         contrast 1.0 8
equalize 0.8 8      equalize 0.6 3
"""
