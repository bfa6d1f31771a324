"""X as people have it, to rows as the library reads them: feature vectors float32 [n, d], or images uint8 [n, C, H, W].

What a kind of input needs is here alone: a reader of further kinds (texts, picture files) turns them into one of these
two arrays, and nothing else of the estimator changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import validate_data

from pars.data import ColumnEncoder, Inputs, column_statistics, to_inputs
from pars.errors import UserError

Floats = npt.NDArray[np.float64]
WORDS = ("str", "utf8", "categ", "enum")  # how frames name columns of words


@dataclass(frozen=True, eq=False)
class Reader:
    """How the rows of one fit are read: numbers as they are, columns of words one by one, or pictures."""

    shape: tuple[int, ...]  # of a row, as the network sees it
    mean: Floats | None = None  # of each feature; none for images
    std: Floats | None = None
    columns: ColumnEncoder | None = None  # of a frame with words in it

    def read(self, estimator: Any, X: Any) -> Inputs:
        """Rows as the network sees them, checked as scikit-learn checks them; features are scaled in float64."""
        rows = check(estimator, X, fitting=False, columns=self.columns)
        if tuple(rows.shape[1:]) != self.shape:
            raise UserError(f"X: rows have shape {list(rows.shape[1:])}, those of fit had {list(self.shape)}")
        return self.scaled(rows)

    def scaled(self, rows: Any) -> Inputs:
        if self.mean is None:
            return rows  # type: ignore[no-any-return]
        with np.errstate(over="ignore"):
            scaled = ((rows - self.mean) / self.std).astype(np.float32)
        bad = np.argwhere(~np.isfinite(scaled))
        if bad.size:
            row, column = bad[0]
            raise UserError(f"X: row {row}, column {column} is {rows[row, column]:g}, too far from the rows of fit")
        return scaled  # type: ignore[no-any-return]


def learn(estimator: Any, X: Any) -> tuple[Inputs, Reader]:
    """The rows of a fit, and how later ones are to be read; sets `n_features_in_` and `feature_names_in_`."""
    columns = ColumnEncoder.fit(X) if has_words(X) else None
    rows = check(estimator, X, fitting=True, columns=columns)
    shape = tuple(rows.shape[1:])
    if rows.dtype == np.uint8:
        return rows, Reader(shape)
    unit = np.abs(rows).max(axis=0)  # first: the square of 1e200 is no number, that of 1e-200 is 0
    unit[unit == 0] = 1.0
    mean, std = column_statistics(rows / unit)
    reader = Reader(shape, mean * unit, std * unit, columns)
    return reader.scaled(rows), reader


def check(estimator: Any, X: Any, *, fitting: bool, columns: ColumnEncoder | None) -> Any:
    """X as float64 [n, d] or uint8 [n, C, H, W], or the error that scikit-learn would raise."""
    X = X.detach().cpu().numpy() if isinstance(X, torch.Tensor) else X
    if columns is not None:
        validate_data(estimator, X, reset=fitting, skip_check_array=True)  # the names, and how many there are
        return columns.encode(X).astype(np.float64)
    if is_images(X):
        return check_images(estimator, X, fitting=fitting)
    if has_words(X):
        raise UserError("X has columns of words, expected numbers as in fit")
    if holds_texts(X):
        raise UserError("X holds texts, expected numbers; turn them into features first, as pars.encode does")
    return validate_data(estimator, X, reset=fitting, dtype=np.float64)


def is_images(X: Any) -> bool:
    """Whether X is an array of pictures: uint8 [n, h, w], [n, h, w, c] or [n, c, h, w]."""
    return isinstance(X, np.ndarray) and X.ndim in (3, 4) and X.dtype == np.uint8


def check_images(estimator: Any, X: npt.NDArray[np.uint8], *, fitting: bool) -> Any:
    if not X.size:
        raise UserError(f"X: images of shape {list(X.shape)}, expected at least one row and one pixel")
    images = np.ascontiguousarray(to_inputs(X, "X"))
    if fitting:
        estimator.n_features_in_ = int(np.prod(images.shape[1:]))
        if hasattr(estimator, "feature_names_in_"):  # of an earlier fit
            del estimator.feature_names_in_
    return images


def has_words(X: Any) -> bool:
    """Whether X is a frame, of pandas or polars, with a column of words or categories."""
    names, kinds = getattr(X, "columns", None), getattr(X, "dtypes", None)
    if names is None or kinds is None:
        return False
    return any(is_word_column(X[name], str(kind).lower()) for name, kind in zip(names, kinds, strict=True))


def is_word_column(column: Any, kind: str) -> bool:
    return kind.startswith(WORDS) or (kind == "object" and any(isinstance(value, str) for value in column))


def holds_texts(X: Any) -> bool:
    return isinstance(X, list | tuple) and bool(X) and isinstance(X[0], str)
