"""A table with wrong labels: which ones are wrong, and does robust training help?

    python examples/tables.py

Writes wines.csv and the folder wines/ beside it; `pars fit wines.csv --label kind --out wines` does the same.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

import pars


def write_table(path: Path) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """178 wines of three kinds, a fifth of them labeled wrong; returns which."""
    wine, rng = load_wine(), np.random.default_rng(0)
    names = np.array(["barolo", "grignolino", "barbera"])
    wrong = rng.random(len(wine.target)) < 0.2
    given = np.where(wrong, (wine.target + rng.integers(1, 3, len(wine.target))) % 3, wine.target)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(name.replace("/", "_") for name in wine.feature_names), "kind"])
        writer.writerows([*row, names[label]] for row, label in zip(wine.data.tolist(), given, strict=True))
    return wrong


wrong = write_table(Path("wines.csv"))
result = pars.fit("wines.csv", "kind", out="wines")
print(result)

flagged = result.audit.is_label_issue
print(f"{flagged[wrong].mean():.0%} of the wrong labels are flagged, {flagged[~wrong].mean():.0%} of the right ones")
row = int(result.audit.suspects[0])
print(f"first to check: row {row}, {result.audit.why[row]}")
