"""The operations of RandAugment and AutoAugment: their names, the ranges of their amounts, and running them on a batch.

Each image has its own sequence of k operations with amounts in Pillow's units: an enhancement factor, bits, a
threshold, degrees, a shear, pixels. The result has exactly the pixels of Pillow, image by image.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pars.augment import pillow_ops
from pars.augment.pillow_ops import Amount
from pars.augment.view import Params, loop_over_images
from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

OPERATIONS = (
    "autocontrast",
    "brightness",
    "color",
    "contrast",
    "equalize",
    "identity",
    "posterize",
    "rotate",
    "sharpness",
    "shear-x",
    "shear-y",
    "solarize",
    "translate-x",
    "translate-y",
    "invert",  # last: AutoAugment only, RandAugment draws from the others
)
INDEX = {name: i for i, name in enumerate(OPERATIONS)}
N_RANDAUGMENT = len(OPERATIONS) - 1
GEOMETRIC = ("rotate", "shear-x", "shear-y", "translate-x", "translate-y")
"""Operations with a random sign."""
ENHANCEMENTS = ("brightness", "color", "contrast", "sharpness")

_MAX_ROTATION = 30.0  # degrees at level 1
_MAX_SHEAR = 0.3
_IS_WHOLE = np.array([name in ("posterize", "solarize") for name in OPERATIONS])  # amounts are whole numbers

_COEFFICIENT = {"shear-x": "b", "shear-y": "d", "translate-x": "c", "translate-y": "f"}
"""The affine coefficient that is the amount; it maps output to input, so a positive shift moves the image left."""
_POINT_OPERATIONS: dict[str, Callable[[Tensor, Amount], Tensor]] = {
    "autocontrast": lambda x, amount: pillow_ops.autocontrast(x),
    "brightness": pillow_ops.brightness,
    "contrast": pillow_ops.contrast,
    "equalize": lambda x, amount: pillow_ops.equalize(x),
    "invert": lambda x, amount: pillow_ops.invert(x),
    "posterize": pillow_ops.posterize,
    "solarize": pillow_ops.solarize,
    "color": pillow_ops.color,
    "sharpness": pillow_ops.sharpness,
}
_GROUPS = ("identity", "geometric", *_POINT_OPERATIONS)
_GROUP = np.array([_GROUPS.index("geometric" if name in GEOMETRIC else name) for name in OPERATIONS])
"""Group of each operation; a group is one batched call, and all geometric operations are one group."""


def fixmatch_amounts(op: Ints, level: Floats, sign: Floats, shape: tuple[int, ...], *, translate: float) -> Floats:
    """Return the amounts of FixMatch's RandAugment at levels in 0..1.

    Enhancement factors go from 0.05 to 0.95, so a *low* level is a strong change; posterize keeps 4 to 7 bits.
    Shapes: op, level, sign [n, k] -> [n, k]. shape: of one image. translate: largest shift, as a fraction of the side.
    """
    ranges = _ranges(shape, translate, enhance=(0.05, 0.9, 1), posterize=(4, 4, 1))
    amount = ranges.amounts(op, level, sign)
    # Truncated towards level 0, with a tolerance for values like 256 · 0.25 that miss a whole number.
    truncated = np.where(ranges.direction[op] < 0, np.ceil(amount - 1e-9), np.floor(amount + 1e-9))
    return np.where(_IS_WHOLE[op], truncated, amount)


def autoaugment_amounts(op: Ints, level: Floats, sign: Floats, shape: tuple[int, ...], *, translate: float) -> Floats:
    """Return the amounts of AutoAugment at levels in 0..1; level 0 changes nothing.

    Enhancement factors are 1 ± 0.9 · level; posterize keeps 8 to 4 bits. Arguments as in `fixmatch_amounts`.
    """
    amount = _ranges(shape, translate, enhance=(1, 0.9, 0), posterize=(8, 4, -1)).amounts(op, level, sign)
    return np.where(_IS_WHOLE[op], np.rint(amount), amount)


@dataclass(frozen=True, eq=False)
class _Ranges:
    """Per operation: amount = start + direction · span · level; direction 0 stands for a random sign."""

    start: Floats
    span: Floats
    direction: Floats

    def amounts(self, op: Ints, level: Floats, sign: Floats) -> Floats:
        """Shapes: op, level, sign [n, k] -> [n, k]."""
        direction = self.direction[op]
        return self.start[op] + np.where(direction == 0, sign, direction) * self.span[op] * level


@functools.cache
def _ranges(
    shape: tuple[int, ...],
    translate: float,
    *,
    enhance: tuple[float, float, float],
    posterize: tuple[float, float, float],
) -> _Ranges:
    """Return the ranges for images of this shape; `enhance` and `posterize` are (start, span, direction)."""
    height, width = shape[1:]
    ranges = dict.fromkeys(OPERATIONS, (0.0, 0.0, 1.0)) | dict.fromkeys(ENHANCEMENTS, enhance)
    ranges |= {"posterize": posterize, "solarize": (256, 256, -1)}
    spans = dict.fromkeys(GEOMETRIC, _MAX_SHEAR) | {"rotate": _MAX_ROTATION}
    spans |= {"translate-x": translate * width, "translate-y": translate * height}
    ranges |= {name: (0, span, 0) for name, span in spans.items()}
    start, span, direction = np.array([ranges[name] for name in OPERATIONS], dtype=np.float64).T
    return _Ranges(start, span, direction)


def operation_params(op: Ints, amount: Floats, shape: tuple[int, ...]) -> Params:
    """Return the parameters of `apply_operations`: op [n, k], amount [n, k], and the affine maps map [n, k, 6].

    op: indices into OPERATIONS [n, k]. amount: [n, k]. shape: of one image.
    """
    matrix = np.broadcast_to(np.array([1.0, 0, 0, 0, 1, 0]), (*op.shape, 6)).copy()
    for name, coefficient in _COEFFICIENT.items():
        chosen = op == INDEX[name]
        matrix[chosen, "abcdef".index(coefficient)] = amount[chosen]
    rotated = op == INDEX["rotate"]
    matrix[rotated] = pillow_ops.rotation_matrix(amount[rotated], (shape[1], shape[2]))
    return {
        "op": torch.from_numpy(op),
        "amount": torch.from_numpy(amount),
        "map": torch.from_numpy(pillow_ops.to_fixed_point(matrix)),
    }


def apply_operations(x: Tensor, params: Params, fill: int = 0) -> Tensor:
    """Return the images after their operations, one after the other.

    Shapes: x [n, C, H, W] uint8 -> the same. fill: gray level of pixels from outside the image.
    """
    if not len(x):
        return x.clone()
    group = _GROUP[params["op"].cpu().numpy()]  # on the CPU: grouping on a device would wait for it
    if loop_over_images(x):
        # As Python numbers: reading one from a tensor costs as much as some operations.
        sequences = zip(group.tolist(), params["amount"].tolist(), params["map"].tolist(), strict=True)
        out = torch.empty_like(x)
        for target, image, its in zip(out.split(1), x.split(1), sequences, strict=True):  # type: ignore[no-untyped-call]
            target.copy_(_apply_to_one(image, *its, fill=fill))
        return out
    for k in range(group.shape[1]):
        # Sort by group, run each group, restore the order: copying whole images is nearly free, whereas writing to
        # scattered rows of the batch would cost as much as an operation.
        order = np.argsort(group[:, k], kind="stable")
        at = torch.from_numpy(order).to(x.device)
        amount = params["amount"][:, k].to(x.device, torch.float32).index_select(0, at)[:, None, None, None]
        matrix = params["map"][:, k].to(x.device).index_select(0, at)
        sizes = np.bincount(group[:, k], minlength=len(_GROUPS)).tolist()
        columns = [torch.split(values, sizes) for values in (x.index_select(0, at), amount, matrix)]
        parts = [
            _apply_group(name, *its, fill=fill) for name, *its in zip(_GROUPS, *columns, strict=True) if len(its[0])
        ]
        x = torch.cat(parts).index_select(0, torch.from_numpy(np.argsort(order)).to(x.device))
    return x


def _apply_to_one(x: Tensor, groups: list[int], amounts: list[float], maps: list[list[int]], *, fill: int) -> Tensor:
    """Return one image [1, C, H, W] after all its operations."""
    for group, amount, matrix in zip(groups, amounts, maps, strict=True):
        x = _apply_group(_GROUPS[group], x, amount, matrix, fill=fill)
    return x


def _apply_group(name: str, x: Tensor, amount: Amount, matrix: Tensor | list[int], *, fill: int) -> Tensor:
    """Return images after one operation of their group."""
    if name == "identity":
        return x
    if name == "geometric":
        return (
            pillow_ops.warp(x, matrix, fill)
            if isinstance(matrix, torch.Tensor)
            else pillow_ops.warp_one(x, matrix, fill)
        )
    return _POINT_OPERATIONS[name](x, amount)
