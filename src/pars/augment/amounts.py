"""From a level in 0..1 to an operation's amount in Pillow's units: the published ranges as tables."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from pars.augment.operations import ENHANCEMENTS, OPERATIONS, SIGNED, Floats, Ints

TURN = 30.0  # degrees at level 1
SHEAR = 0.3


@dataclass(frozen=True, eq=False)
class Ranges:
    """Per operation: amount = start + way · span · level; `way` 0 stands for a drawn sign."""

    start: Floats
    span: Floats
    way: Floats

    def amounts(self, op: Ints, level: Floats, sign: Floats) -> Floats:
        """Shapes: op, level, sign [n, k] -> [n, k]."""
        way = self.way[op]
        return self.start[op] + np.where(way == 0, sign, way) * self.span[op] * level


def plain(op: Ints, level: Floats, sign: Floats, shape: tuple[int, ...], *, translate: float) -> Floats:
    """FixMatch's: enhancements weaken (factor 0.05 to 0.95, stronger at *low* levels), posterize keeps 4 to 7 bits.

    Shapes: op, level, sign [n, k] -> [n, k]. translate: greatest shift, as a share of the side.
    """
    ranges = _ranges(shape, translate, enhance=(0.05, 0.9, 1), posterize=(4, 4, 1))
    amount = ranges.amounts(op, level, sign)
    # Cut off on the way from level 0, with a hair's breadth for values like 256 · 0.25 that miss a whole number.
    towards = np.where(ranges.way[op] < 0, np.ceil(amount - 1e-9), np.floor(amount + 1e-9))
    return np.where(WHOLE[op], towards, amount)


def centered(op: Ints, level: Floats, sign: Floats, shape: tuple[int, ...], *, translate: float) -> Floats:
    """AutoAugment's: level 0 changes nothing, enhancements go either way (factor 1 ± 0.9), posterize keeps 8…4 bits."""
    amount = _ranges(shape, translate, enhance=(1, 0.9, 0), posterize=(8, 4, -1)).amounts(op, level, sign)
    return np.where(WHOLE[op], np.rint(amount), amount)


WHOLE = np.array([name in ("posterize", "solarize") for name in OPERATIONS])


@functools.cache
def _ranges(
    shape: tuple[int, ...],
    translate: float,
    *,
    enhance: tuple[float, float, float],
    posterize: tuple[float, float, float],
) -> Ranges:
    height, width = shape[1:]
    rows = dict.fromkeys(OPERATIONS, (0.0, 0.0, 1.0)) | dict.fromkeys(ENHANCEMENTS, enhance)
    rows |= {"posterize": posterize, "solarize": (256, 256, -1)}
    spans = dict.fromkeys(SIGNED, SHEAR) | {"rotate": TURN}
    spans |= {"translate-x": translate * width, "translate-y": translate * height}
    rows |= {name: (0, span, 0) for name, span in spans.items()}
    start, span, way = np.array([rows[name] for name in OPERATIONS], dtype=np.float64).T
    return Ranges(start, span, way)
