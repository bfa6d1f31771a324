"""Transition matrices T, T[i, j] = P(given label j | true label i), and the class maps behind asymmetric noise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pars.errors import UserError
from pars.noise.config import AsymmetricMap, Convention, Kind

Matrix = npt.NDArray[np.float64]
Classes = npt.NDArray[np.int64]

# truck -> automobile, bird -> airplane, deer -> horse, cat <-> dog (Patrini et al. 2017)
_CIFAR10_MAP = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}

# Superclass of each CIFAR-100 fine class. Fine classes are in alphabetical order, so blocks of five consecutive ones
# are *not* the superclasses.
# fmt: off
CIFAR100_SUPERCLASS = (
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11,
    6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5,
    5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17,
    10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13,
    16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
)
# fmt: on


def transition_matrix(
    kind: Kind,
    n_classes: int,
    rate: float,
    *,
    convention: Convention = "inclusive",
    asymmetric_map: AsymmetricMap = "auto",
) -> Matrix:
    """Return the expected T [K, K] of a kind of noise: none, symmetric, asymmetric or pair.

    >>> transition_matrix("symmetric", 4, 0.4)[0].round(3).tolist()
    [0.7, 0.1, 0.1, 0.1]
    >>> transition_matrix("symmetric", 4, 0.3, convention="exclusive")[0].round(3).tolist()
    [0.7, 0.1, 0.1, 0.1]
    >>> transition_matrix("pair", 3, 0.25)[2].tolist()
    [0.25, 0.0, 0.75]
    """
    if not 0 <= rate <= 1:
        raise UserError(f"noise.rate must be between 0 and 1, not {rate}")
    identity = np.eye(n_classes)
    if kind == "none":
        return identity
    if n_classes < 2:
        raise UserError(f"noise.kind = {kind!r} needs at least 2 classes; the data has {n_classes}")
    if kind == "symmetric" and convention == "inclusive":
        return (1 - rate) * identity + rate / n_classes
    if kind == "symmetric":
        return (1 - rate) * identity + rate / (n_classes - 1) * (1 - identity)
    if kind == "pair":
        return (1 - rate) * identity + rate * identity[_next_class(np.zeros(n_classes, np.int64))]
    if kind == "asymmetric":
        return (1 - rate) * identity + rate * identity[class_map(asymmetric_map, n_classes)]
    raise UserError(f"noise.kind = {kind!r} has no transition matrix of a given rate")


def class_map(name: AsymmetricMap, n_classes: int) -> Classes:
    """Return the class that each class is confused with, [K]; a class that is not confused maps to itself.

    >>> class_map("cifar10", 10).tolist()
    [0, 1, 0, 5, 7, 3, 6, 7, 8, 1]
    >>> class_map("block", 10).tolist()
    [1, 2, 3, 4, 0, 6, 7, 8, 9, 5]
    """
    name = resolve_map(name, n_classes)
    if name == "cifar10":
        return np.array([_CIFAR10_MAP.get(c, c) for c in range(n_classes)], np.int64)
    if name == "block":
        return _next_class(np.arange(n_classes) // 5)
    return _next_class(np.array(CIFAR100_SUPERCLASS))


def resolve_map(name: AsymmetricMap, n_classes: int) -> AsymmetricMap:
    """Return the map that "auto" stands for; a UserError if the map does not fit the number of classes."""
    if name == "auto":
        if n_classes == 10:
            return "cifar10"
        if n_classes == 100:
            return "block"
        raise UserError(
            f"noise.asymmetric_map = 'auto' needs 10 classes (cifar10) or 100 (block), the data has {n_classes}; "
            f"use noise.kind = 'pair', or 'matrix' with your own noise.path"
        )
    fits = {"cifar10": n_classes == 10, "block": n_classes % 5 == 0, "superclass": n_classes == 100}
    if not fits[name]:
        wants = {"cifar10": "10 classes", "block": "a multiple of 5 classes", "superclass": "the 100 of CIFAR-100"}
        raise UserError(f"noise.asymmetric_map = {name!r} needs {wants[name]}; the data has {n_classes}")
    return name


def _next_class(group: Classes) -> Classes:
    """Return, for each class, the next class of its group; the last one wraps around to the first.

    >>> _next_class(np.array([0, 1, 0, 1, 0])).tolist()
    [2, 3, 4, 1, 0]
    """
    following = np.empty(len(group), np.int64)
    for number in np.unique(group):
        members = np.flatnonzero(group == number)
        following[members] = np.roll(members, -1)
    return following


def check_matrix(matrix: npt.NDArray[np.generic], n_classes: int, where: str) -> Matrix:
    """Return the matrix in float64; a UserError unless it is [K, K] and each row is a distribution."""
    if matrix.shape != (n_classes, n_classes):
        raise UserError(
            f"{where}: a transition matrix for {n_classes} classes must have shape ({n_classes}, {n_classes}), "
            f"not {matrix.shape}"
        )
    if not (np.issubdtype(matrix.dtype, np.floating) or np.issubdtype(matrix.dtype, np.integer)):
        raise UserError(f"{where}: a transition matrix must contain numbers, not {matrix.dtype}")
    result = matrix.astype(np.float64)
    for row, values in enumerate(result):
        bad = ~((values >= 0) & np.isfinite(values))
        if bad.any():
            column = int(np.flatnonzero(bad)[0])
            raise UserError(
                f"{where}: entry [{row}, {column}] is {values[column]}; probabilities must be >= 0 and finite"
            )
        with np.errstate(over="ignore"):  # becomes inf, and is reported
            total = values.sum()
        if abs(total - 1) > 1e-6:
            raise UserError(f"{where}: row {row} sums to {total:.6g}; each row must sum to 1")
    return result
