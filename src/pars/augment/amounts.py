"""From a level in 0..1 to an operation's amount in Pillow's units: the published ranges."""

from __future__ import annotations

import numpy as np

from pars.augment.operations import ENHANCEMENTS, NUMBER, SIGNED, Floats, Ints

TURN = 30.0  # degrees at level 1
SHEAR = 0.3


def plain(op: Ints, level: Floats, sign: Floats, shape: tuple[int, ...], *, translate: float) -> Floats:
    """FixMatch's: enhancements weaken (factor 0.05 to 0.95, stronger at *low* levels), posterize keeps 4 to 7 bits.

    Shapes: op, level, sign [n, k] -> [n, k]. translate: greatest shift, as a share of the side.
    """
    amount = _geometric(op, level, sign, shape, translate)
    amount[_is(op, *ENHANCEMENTS)] = (0.05 + 0.9 * level)[_is(op, *ENHANCEMENTS)]
    amount[_is(op, "posterize")] = (4 + _whole(4 * level))[_is(op, "posterize")]
    amount[_is(op, "solarize")] = (256 - _whole(256 * level))[_is(op, "solarize")]
    return amount


def centred(op: Ints, level: Floats, sign: Floats, shape: tuple[int, ...], *, translate: float) -> Floats:
    """AutoAugment's: level 0 changes nothing, enhancements go either way (factor 1 ± 0.9), posterize keeps 8…4 bits."""
    amount = _geometric(op, level, sign, shape, translate)
    amount[_is(op, *ENHANCEMENTS)] = (1 + 0.9 * sign * level)[_is(op, *ENHANCEMENTS)]
    amount[_is(op, "posterize")] = (8 - np.rint(4 * level))[_is(op, "posterize")]
    amount[_is(op, "solarize")] = (256 - np.rint(256 * level))[_is(op, "solarize")]
    return amount


def _geometric(op: Ints, level: Floats, sign: Floats, shape: tuple[int, ...], translate: float) -> Floats:
    height, width = shape[1:]
    ranges = {"rotate": TURN, "shear-x": SHEAR, "shear-y": SHEAR}
    ranges |= {"translate-x": translate * width, "translate-y": translate * height}
    amount = np.zeros_like(level)
    for name in SIGNED:
        amount[_is(op, name)] = (ranges[name] * sign * level)[_is(op, name)]
    return amount


def _is(op: Ints, *names: str) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return np.isin(op, [NUMBER[name] for name in names])


def _whole(values: Floats) -> Floats:
    """Cut off, with a hair's breadth for values like 4·0.25 that are whole but for rounding."""
    return np.floor(values + 1e-9)
