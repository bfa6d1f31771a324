"""The operations of RandAugment and AutoAugment on whole batches: every image its own, one after the other.

An image's program is a row of operations `op` [k] with their amounts in Pillow's own units (an enhancement factor,
bits, a threshold, degrees, a shear, pixels). In each of the k places images are grouped by operation, and a group is
one batched call; what Pillow would do image by image comes out, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pars.augment import blend, geometry, tone
from pars.augment.blend import Amount
from pars.augment.view import Params, one_by_one
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
    "invert",  # AutoAugment's only; RandAugment draws from those before it
)
RANDAUGMENT = len(OPERATIONS) - 1
NUMBER = {name: i for i, name in enumerate(OPERATIONS)}
SIGNED = ("rotate", "shear-x", "shear-y", "translate-x", "translate-y")
"""Geometric operations, which go either way."""
ENHANCEMENTS = ("brightness", "color", "contrast", "sharpness")

MATRICES: dict[str, Callable[[Floats], Floats]] = {
    "shear-x": geometry.shear_x,
    "shear-y": geometry.shear_y,
    "translate-x": geometry.translate_x,
    "translate-y": geometry.translate_y,
}
POINTS: dict[str, Callable[[Tensor, Amount], Tensor]] = {
    "autocontrast": lambda x, amount: tone.lookup(x, tone.autocontrast(x)),
    "brightness": tone.brightness,
    "contrast": tone.contrast,
    "equalize": lambda x, amount: tone.lookup(x, tone.equalize(x)),
    "invert": lambda x, amount: 255 - x,
    "posterize": tone.posterize,
    "solarize": tone.solarize,
    "color": blend.color,
    "sharpness": blend.sharpness,
}
GROUPS = ("identity", "geometric", *POINTS)
GROUP = np.array([GROUPS.index("geometric" if name in SIGNED else name) for name in OPERATIONS])
"""The group of each operation: the geometric ones are all one call."""


def program(op: Ints, amount: Floats, shape: tuple[int, ...]) -> Params:
    """The parameters with which `perform` does operations op [n, k] with their amounts [n, k] to images of `shape`."""
    matrix = np.broadcast_to(np.array([1.0, 0, 0, 0, 1, 0]), (*op.shape, 6)).copy()
    for name, make in MATRICES.items():
        chosen = op == NUMBER[name]
        matrix[chosen] = make(amount[chosen])
    turned = op == NUMBER["rotate"]
    matrix[turned] = geometry.rotate(amount[turned], (shape[1], shape[2]))
    return {
        "op": torch.from_numpy(op),
        "amount": torch.from_numpy(amount),
        "map": torch.from_numpy(geometry.fixed_point(matrix)),
    }


def perform(x: Tensor, params: Params, fill: int = 0) -> Tensor:
    """Do each image's program to a copy of it. Shapes: x [n, C, H, W] uint8 -> the same. fill: gray that moves in."""
    if not len(x):
        return x.clone()
    group = GROUP[params["op"].cpu().numpy()]  # on the CPU: grouping on a device would wait for it
    if one_by_one(x):
        # As plain numbers: looking one up in a tensor costs as much as some operations do.
        programs = zip(group.tolist(), params["amount"].tolist(), params["map"].tolist(), strict=True)
        out = torch.empty_like(x)
        for to, image, its in zip(out.split(1), x.split(1), programs, strict=True):  # type: ignore[no-untyped-call]
            to.copy_(_follow(image, *its, fill=fill))
        return out
    for k in range(group.shape[1]):
        # Sorted by group, done group by group, and put back: whole rows are copied, which is next to free, where
        # writing to scattered rows of the batch would cost as much as an operation.
        order = np.argsort(group[:, k], kind="stable")
        at = torch.from_numpy(order).to(x.device)
        amount = params["amount"][:, k].to(x.device, torch.float32).index_select(0, at)[:, None, None, None]
        matrix = params["map"][:, k].to(x.device).index_select(0, at)
        sizes = np.bincount(group[:, k], minlength=len(GROUPS)).tolist()
        columns = [torch.split(values, sizes) for values in (x.index_select(0, at), amount, matrix)]
        parts = [_do(name, *its, fill=fill) for name, *its in zip(GROUPS, *columns, strict=True) if len(its[0])]
        x = torch.cat(parts).index_select(0, torch.from_numpy(np.argsort(order)).to(x.device))
    return x


def _follow(x: Tensor, program: list[int], amounts: list[float], maps: list[list[int]], *, fill: int) -> Tensor:
    """One image through its program."""
    for group, amount, matrix in zip(program, amounts, maps, strict=True):
        x = _do(GROUPS[group], x, amount, matrix, fill=fill)
    return x


def _do(name: str, x: Tensor, amount: Amount, matrix: Tensor | list[int], *, fill: int) -> Tensor:
    if name == "identity":
        return x
    if name == "geometric":
        if isinstance(matrix, torch.Tensor):
            return geometry.warp(x, matrix, fill)
        return geometry.warp_one(x, matrix, fill)
    return POINTS[name](x, amount)
