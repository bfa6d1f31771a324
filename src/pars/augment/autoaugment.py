"""AutoAugment: one of 25 learned pairs of operations for each image, after crop and flip (Cubuk et al. 2018)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from pars.augment.amounts import centered
from pars.augment.operations import NUMBER, Floats, Ints, perform, program
from pars.augment.view import Crop, Params

if TYPE_CHECKING:
    from torch import Tensor

Policy = Literal["cifar10", "imagenet"]
LEVELS = 9  # levels run from 0 to 9
TRANSLATE = 150 / 331  # the search moved pictures of 331 pixels by up to 150

# The paper's appendix: operation, probability, level; twice a line. What has no strength still has a level there.
CIFAR10 = """
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
IMAGENET = """
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


@functools.cache
def pairs(policy: Policy) -> tuple[Ints, Floats, Floats]:
    """Operations, probabilities and levels in 0..1 of a policy, each [25, 2].

    >>> [values[2].tolist() for values in pairs("cifar10")[:2]]
    [[8, 8], [0.8, 0.9]]
    """
    words = np.array([line.split() for line in (CIFAR10 if policy == "cifar10" else IMAGENET).split("\n") if line])
    op = np.vectorize(NUMBER.__getitem__, otypes=[np.int64])(words[:, 0::3])
    return op, words[:, 1::3].astype(np.float64), words[:, 2::3].astype(np.float64) / LEVELS


@dataclass(frozen=True, kw_only=True)
class AutoAugment:
    """`crop`, then one pair of the policy, each operation with its probability. Parameters as RandAugment's."""

    crop: Crop
    policy: Policy = "cifar10"
    fill: int = 128

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        params = self.crop.draw(rng, n, shape)
        shape = self.crop.shape_after(shape)
        ops, probability, levels = pairs(self.policy)
        pair = rng.integers(0, len(ops), n)
        sign = rng.choice([-1.0, 1.0], (n, 2))
        done = rng.random((n, 2)) < probability[pair]
        op = np.where(done, ops[pair], NUMBER["identity"])
        amount = centered(op, levels[pair], sign, shape, translate=TRANSLATE)
        return params | program(op, amount, shape)

    def apply(self, x: Tensor, params: Params) -> Tensor:
        return perform(self.crop.apply(x, params), params, self.fill)
