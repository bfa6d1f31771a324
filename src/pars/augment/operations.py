"""The operations of RandAugment and AutoAugment on whole batches: every image its own, one after the other.

An image's program is a row of operations `op` [k] with their amounts in Pillow's own units (an enhancement factor,
bits, a threshold, degrees, a shear, pixels). In each of the k places images are grouped by operation, and a group is
one batched call; what Pillow would do image by image comes out, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pars.augment import blend, geometry, tone
from pars.augment.view import Params

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
TABLES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "autocontrast": lambda x, amount: tone.autocontrast(x),
    "brightness": tone.brightness,
    "contrast": tone.contrast,
    "equalize": lambda x, amount: tone.equalize(x),
    "invert": lambda x, amount: tone.invert(x),
    "posterize": tone.posterize,
    "solarize": tone.solarize,
}
BLENDS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"color": blend.color, "sharpness": blend.sharpness}


def program(op: Ints, amount: Floats, shape: tuple[int, ...]) -> Params:
    """The parameters with which `perform` does operations op [n, k] with their amounts [n, k] to images of `shape`."""
    matrix = np.broadcast_to(np.array([1.0, 0, 0, 0, 1, 0]), (*op.shape, 6)).copy()
    for name, make in MATRICES.items():
        matrix[op == NUMBER[name]] = make(amount[op == NUMBER[name]])
    turned = op == NUMBER["rotate"]
    matrix[turned] = geometry.rotate(amount[turned], (shape[1], shape[2]))
    return {
        "op": torch.from_numpy(op),
        "amount": torch.from_numpy(amount),
        "map": torch.from_numpy(geometry.fixed_point(matrix)),
    }


def perform(x: Tensor, params: Params, fill: int = 0) -> Tensor:
    """Do each image's program to it. Shapes: x [n, C, H, W] uint8 -> the same; `fill` is the grey of what moves in."""
    out = x.clone()
    ops = params["op"].cpu().numpy()  # stays on the CPU: grouping on a device would wait for it
    for k in range(ops.shape[1]):
        amount, matrix = params["amount"][:, k], params["map"][:, k]
        for name, rows in _groups(ops[:, k]):
            at = torch.from_numpy(rows).to(x.device)
            part = out[at]
            if name in TABLES:
                out[at] = tone.lookup(part, TABLES[name](part, amount[at]))
            elif name in BLENDS:
                out[at] = BLENDS[name](part, amount[at])
            else:
                out[at] = geometry.warp(part, matrix[at], fill)
    return out


def _groups(op: Ints) -> list[tuple[str, Ints]]:
    """The rows of each operation; the geometric ones, which are all one call, under one name."""
    geometric = np.isin(op, [NUMBER[name] for name in SIGNED])
    groups = [("geometric", np.flatnonzero(geometric))]
    groups += [(name, np.flatnonzero(op == NUMBER[name])) for name in (*TABLES, *BLENDS)]
    return [(name, rows) for name, rows in groups if len(rows)]
