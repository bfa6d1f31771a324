"""The record of label noise, stored with a run: enough to explain, compare and verify it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from pars.errors import UserError
from pars.noise.corrupt import Labels


@dataclass(frozen=True, kw_only=True)
class NoiseRecord:
    """The noise of one set of labels.

    convention: inclusive or exclusive (symmetric), the class map (asymmetric), otherwise None.
    rate: the nominal rate; None for kinds without one (matrix, file).
    seed: None if nothing was drawn (none, file).
    realized_rate: fraction of labeled rows whose given label is wrong; None without true labels.
    n_labeled: number of rows with a given and a true label; without true labels, with a given label.
    confusion: counts [K][K], rows true, columns given; None without true labels.
    sha256: of the given labels as little-endian int64.
    """

    kind: str
    convention: str | None
    rate: float | None
    seed: int | None
    realized_rate: float | None
    n_labeled: int
    confusion: tuple[tuple[int, ...], ...] | None
    sha256: str

    @classmethod
    def from_json(cls, text: str) -> NoiseRecord:
        """Return the record in a JSON text; a UserError if it contains none."""
        try:
            values = json.loads(text)
            counts = values.pop("confusion")
            confusion = None if counts is None else tuple(tuple(int(count) for count in row) for row in counts)
            return cls(**values, confusion=confusion)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UserError(f"not a noise record: {error}") from None


@dataclass(frozen=True, eq=False)
class NoisyLabels:
    """Given labels [n] and the record of their noise."""

    labels: Labels
    record: NoiseRecord


def describe(
    true_labels: Labels | None,
    given_labels: Labels,
    n_classes: int,
    *,
    kind: str,
    convention: str | None = None,
    rate: float | None = None,
    seed: int | None = None,
) -> NoiseRecord:
    """Return the record that compares given with true labels, both [n]; rows without either label are not counted.

    Without true labels, the record has no realized rate and no confusion counts.

    >>> record = describe(np.array([0, 1, -1]), np.array([0, 0, -1]), 2, kind="file")
    >>> record.realized_rate, record.n_labeled, record.confusion
    (0.5, 2, ((1, 0), (1, 0)))
    """
    labeled = given_labels >= 0
    confusion, realized_rate = None, None
    if true_labels is not None:
        labeled &= true_labels >= 0
        pairs = true_labels[labeled] * n_classes + given_labels[labeled]
        counts = np.bincount(pairs, minlength=n_classes**2).reshape(n_classes, n_classes)
        confusion = tuple(tuple(row) for row in counts.tolist())
        realized_rate = (len(pairs) - int(np.trace(counts))) / max(1, len(pairs))
    return NoiseRecord(
        kind=kind,
        convention=convention,
        rate=rate,
        seed=seed,
        realized_rate=realized_rate,
        n_labeled=int(labeled.sum()),
        confusion=confusion,
        sha256=labels_sha256(given_labels),
    )


def labels_sha256(labels: Labels) -> str:
    """Return the SHA-256 of labels as little-endian int64, the same on every machine.

    >>> labels_sha256(np.array([0, 1]))[:8]
    '9d34149f'
    """
    return hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()
