"""y as people have it, to class numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from pars.data import UNLABELED, Labels
from pars.errors import UserError
from pars.missing import is_missing

Classes = npt.NDArray[Any]
REFUSE = "refuse"


def read_labels(estimator: Any, y: Any, rows: Any, unlabeled: Any) -> tuple[Labels, Classes]:
    """Class numbers [n], -1 = unlabeled, and the classes in their order.

    `unlabeled` is the value that marks rows without a label; None and NaN both stand for any missing value.
    """
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    y = y.detach().cpu().numpy() if isinstance(y, torch.Tensor) else y
    if isinstance(unlabeled, str) and unlabeled == REFUSE:
        given = column_or_1d(y, warn=True)
        missing = np.zeros(len(given), dtype=bool)
        check_none_missing(given)
    else:
        given = column_or_1d(np.asarray(y, dtype=object), warn=True)
        missing = marked(given, unlabeled)
    check_consistent_length(rows, given)
    known = np.asarray(given[~missing].tolist()) if given.dtype == object else given
    if not len(known):
        raise UserError(f"y: all {len(given)} rows are unlabeled ({unlabeled!r}), expected some labels of 2 classes")
    check_classification_targets(known)
    classes, numbers = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        raise UserError(
            f"y has 1 class ({classes[0]}), expected at least 2 classes: with one label everywhere there is nothing "
            "to learn"
        )
    labels = np.full(len(given), UNLABELED, dtype=np.int64)
    labels[~missing] = numbers
    return labels, classes


def check_none_missing(given: npt.NDArray[Any]) -> None:
    found = marked(given, None) if given.dtype.kind in "Of" else np.zeros(0, dtype=bool)
    if found.any():
        row = int(np.flatnonzero(found)[0])
        raise UserError(
            f"y contains NaN or None: row {row} is {given[row]}; rows without a label are read if unlabeled=None is set"
        )


def marked(given: npt.NDArray[Any], unlabeled: Any) -> npt.NDArray[np.bool_]:
    """Which labels mark a row as unlabeled.

    >>> marked(np.array(["cat", None, float("nan"), -1], dtype=object), None)
    array([False,  True,  True, False])
    >>> marked(np.array([0, 1, -1], dtype=object), -1)
    array([False, False,  True])
    """
    missing = np.array([is_missing(value, empty_text=False) for value in given], dtype=bool)
    if is_missing(unlabeled, empty_text=False):
        return missing
    same = [bool(value == unlabeled) for value in given[~missing]]
    out = np.zeros(len(given), dtype=bool)
    out[~missing] = same
    return out
