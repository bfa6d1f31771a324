"""What a view did to one image, in words: for people who look at views."""

from __future__ import annotations

from pars.augment.operations import OPERATIONS
from pars.augment.view import Params

WITHOUT_AMOUNT = ("autocontrast", "equalize", "invert")


def caption(params: Params, row: int) -> list[str]:
    """One line per change, in the order in which they are made.

    >>> import numpy as np
    >>> from pars.augment.operations import program
    >>> caption(program(np.array([[7, 5]]), np.array([[-12.0, 0.0]]), (3, 8, 8)), 0)
    ['rotate -12']
    """
    lines = []
    if "crop" in params:
        lines.append("crop at {}, {}".format(*params["crop"][row].tolist()))
    if "box" in params:
        top, left, bottom, right = params["box"][row].tolist()
        lines.append(f"box {bottom - top}×{right - left} at {top}, {left}")
    if "flip" in params and params["flip"][row]:
        lines.append("flip")
    if "affine" in params:
        lines.append("affine, color")
    if "op" in params:
        done = zip(params["op"][row].tolist(), params["amount"][row].tolist(), strict=True)
        lines += [_operation(OPERATIONS[op], amount) for op, amount in done if OPERATIONS[op] != "identity"]
    if "cutout" in params:
        top, _, bottom, _ = params["cutout"][row].tolist()
        lines += [f"cutout {bottom - top}"] if bottom > top else []
    return lines


def _operation(name: str, amount: float) -> str:
    return name if name in WITHOUT_AMOUNT else f"{name} {amount:.3g}"
