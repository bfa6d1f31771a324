"""X as people have it, to rows as the library reads them: feature vectors float32 [n, d], or images uint8 [n, C, H, W].

What a kind of input needs is here alone: a reader of further kinds (texts, picture files, columns of words) turns them
into one of these two arrays, and nothing else of the estimator changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import validate_data

from pars.data import Inputs, column_statistics, to_inputs
from pars.errors import UserError

Floats = npt.NDArray[np.float64]
WORDS = ("str", "utf8", "categ", "enum")  # how frames name columns of words


@dataclass(frozen=True, eq=False)
class Reader:
    """How the rows of one fit were read: later rows are read alike."""

    shape: tuple[int, ...]  # of a row, as the network sees it
    mean: Floats | None = None  # of each column; none for images
    std: Floats | None = None

    def apply(self, rows: Any) -> Inputs:
        """Rows that `read` has checked, as the network sees them; columns are standardised in float64."""
        if tuple(rows.shape[1:]) != self.shape:
            raise UserError(f"X: rows have shape {list(rows.shape[1:])}, those of fit had {list(self.shape)}")
        if self.mean is None:
            return rows  # type: ignore[no-any-return]
        with np.errstate(over="ignore"):
            scaled = ((rows - self.mean) / self.std).astype(np.float32)
        bad = np.argwhere(~np.isfinite(scaled))
        if bad.size:
            row, column = bad[0]
            raise UserError(f"X: row {row}, column {column} is {rows[row, column]:g}, too far from the rows of fit")
        return scaled  # type: ignore[no-any-return]


def read(estimator: Any, X: Any, *, fitting: bool) -> Any:
    """X checked as scikit-learn checks it: float64 [n, d], or uint8 [n, C, H, W].

    When fitting, `n_features_in_` and `feature_names_in_` are set; afterwards X has to agree with them.
    """
    X = X.detach().cpu().numpy() if isinstance(X, torch.Tensor) else X
    if is_images(X):
        return read_images(estimator, X, fitting=fitting)
    check_columns(X)
    return validate_data(estimator, X, reset=fitting, dtype=np.float64)


def reader_of(rows: Any) -> Reader:
    """The reader that a fit on these rows settles on."""
    shape = tuple(rows.shape[1:])
    if rows.dtype == np.uint8:
        return Reader(shape)
    unit = np.abs(rows).max(axis=0)  # first: the square of 1e200 is no number, that of 1e-200 is 0
    unit[unit == 0] = 1.0
    mean, std = column_statistics(rows / unit)
    return Reader(shape, mean * unit, std * unit)


def is_images(X: Any) -> bool:
    """Whether X is an array of pictures: uint8 [n, h, w], [n, h, w, c] or [n, c, h, w]."""
    return isinstance(X, np.ndarray) and X.ndim in (3, 4) and X.dtype == np.uint8


def read_images(estimator: Any, X: npt.NDArray[np.uint8], *, fitting: bool) -> Any:
    if not X.size:
        raise UserError(f"X: images of shape {list(X.shape)}, expected at least one row and one pixel")
    images = np.ascontiguousarray(to_inputs(X, "X"))
    if fitting:
        estimator.n_features_in_ = int(np.prod(images.shape[1:]))
        if hasattr(estimator, "feature_names_in_"):  # of an earlier fit
            del estimator.feature_names_in_
    return images


def check_columns(X: Any) -> None:
    """Name the first column of a frame that holds words."""
    names, kinds = getattr(X, "columns", None), getattr(X, "dtypes", None)
    if names is None or kinds is None:
        return
    for name, kind in zip(names, kinds, strict=True):
        text = str(kind).lower()
        values = X[name]
        first = (values.iloc[0] if hasattr(values, "iloc") else values[0]) if len(values) else None
        if text.startswith(WORDS) or (text == "object" and isinstance(first, str)):
            raise UserError(
                f"X: column {name!r} holds words ({kind}; first: {first!r}), expected numbers; encode it first, "
                "for example with sklearn.preprocessing.OneHotEncoder in a pipeline"
            )
