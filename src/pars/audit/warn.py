"""What a reader of the numbers has to know before trusting them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from pars.audit.calibration import Floats, Integers

FEW_ROWS = 10
SHOWN = 5
DEPENDENT = 0.995  # agreement between views above which they are one


def warnings_about(
    transition: Floats, labels: Integers, predicted: Integers, views: Mapping[str, Integers], classes: tuple[str, ...]
) -> list[str]:
    counts = np.bincount(labels[labels >= 0], minlength=len(classes))
    out = swapped(transition, counts, classes)
    if (few := np.flatnonzero(counts < FEW_ROWS)).size:
        names = ", ".join(f"{classes[k]} ({counts[k]})" for k in few[:SHOWN]) + (", …" if few.size > SHOWN else "")
        out.append(f"few labels of: {names}; what is said of these classes is mostly said of all")
    named = {"the prediction": predicted, **{f"the {name} view": view for name, view in views.items()}}
    for (name, one), (other_name, other) in combinations(named.items(), 2):
        if float((one == other).mean()) > DEPENDENT:
            out.append(f"{name} and {other_name} nearly always agree: they are no two opinions")
    return out


def swapped(transition: Floats, counts: Integers, classes: tuple[str, ...]) -> list[str]:
    """Classes whose rows mostly carry another label: noise beyond half, or names exchanged. No method can tell."""
    others = transition * (1 - np.eye(len(transition)))
    worst = others.argmax(axis=1)
    rows = np.arange(len(transition))
    bad = np.flatnonzero((others[rows, worst] > transition[rows, rows]) & (counts > 0))
    shown = [f"{classes[j]} as {classes[worst[j]]} ({100 * others[j, worst[j]]:.0f} %)" for j in bad[:SHOWN]]
    return [f"more often labeled otherwise than right: {', '.join(shown)}; are these classes swapped?"] if shown else []
