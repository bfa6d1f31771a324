"""Constants that count epochs, in a run of another length than the one they are meant for.

One rule: what a method does once per epoch has had the same effect at the same share of either run. `rescale` applies
it to the kinds of constants that there are (docs/methods.md, "Runs shorter than published").
"""

from __future__ import annotations

from typing import Literal

EpochConstant = Literal["momentum", "length", "rate"]
"""How a constant counts epochs.

momentum: of an average that takes in one value per epoch
length: a number of epochs, such as that of a row's stored predictions
rate: of values that move once per epoch, such as a row's soft label
"""
LEAST_LENGTH = 2  # one prediction is no history


def rescale(value: float, kind: EpochConstant, *, reference: int, epochs: int) -> float:
    """Return a constant meant for `reference` epochs as a run of `epochs` needs it; unchanged if both are equal.

    >>> round(rescale(0.95, "momentum", reference=200, epochs=20), 3)     # 0.95^10: an average of 20 epochs, now of 2
    0.599
    >>> rescale(10, "length", reference=320, epochs=64)
    2
    >>> rescale(300.0, "rate", reference=320, epochs=64)
    1500.0
    """
    if epochs == reference:
        return value
    ratio = reference / epochs
    if kind == "momentum":
        return float(value**ratio)
    if kind == "length":
        return max(LEAST_LENGTH, round(value / ratio))
    return value * ratio
