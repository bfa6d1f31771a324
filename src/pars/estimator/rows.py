"""X as people have it, to rows as the library reads them: feature vectors float32 [n, d], or images uint8 [n, C, H, W].

Numbers are checked as scikit-learn checks them. Everything else (texts, picture files, frames with words in them,
images for an encoder) becomes a table that `encode.fit_preprocessor` is fitted to, as `pars fit` does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import validate_data

from pars import encode
from pars.data import Inputs, Table, column_statistics, frame_columns, is_frame, to_inputs
from pars.encode import Features, Preprocessor
from pars.errors import UserError
from pars.estimator.raw import entries_of, kind_of_entries, raw_table, rows_table

Floats = npt.NDArray[np.float64]
WORDS = ("str", "utf8", "categ", "enum")  # how frames name columns of words
EXPECTED = {"text": "texts", "image": "paths of pictures, or images", "columns": "a frame with the columns"}


@dataclass(frozen=True, eq=False)
class Reader:
    """How the rows of one fit are read: numbers and images as they are, anything else as was prepared."""

    shape: tuple[int, ...]  # of a row, as the network sees it
    mean: Floats | None = None  # of each feature; none for images
    std: Floats | None = None
    preparation: Preprocessor | None = None

    def read(self, estimator: Any, X: Any) -> Inputs:
        """Rows as the network sees them; features are scaled in float64."""
        opened = opened_again(estimator, X, self.preparation)
        if isinstance(opened, Table):
            assert self.preparation is not None
            opened = self.preparation.transform(opened)[0]
        if tuple(opened.shape[1:]) != self.shape:
            raise UserError(f"X: rows have shape {list(opened.shape[1:])}, those of fit had {list(self.shape)}")
        return self.scaled(opened)  # type: ignore[no-any-return]

    def scaled(self, rows: Any) -> Any:
        """Feature vectors [n, d], or their views [n, 2N, d], in units of each feature's deviation."""
        if self.mean is None:
            return rows
        with np.errstate(over="ignore"):
            scaled = ((rows - self.mean) / self.std).astype(np.float32)
        bad = np.argwhere(~np.isfinite(scaled))
        if bad.size:
            row, *column = bad[0].tolist()
            place = ", ".join(map(str, column))
            raise UserError(f"X: row {row}, column {place} is {rows[row, *column]:g}, too far from the rows of fit")
        return scaled


def learn(estimator: Any, opened: Any, seed: int) -> tuple[Inputs, Features | None, Reader]:
    """What `opened` holds as the network sees it, views of it where some are asked for, and how to read later rows."""
    rows, cached, preparation = opened, None, None
    if not isinstance(estimator.encoded_views, Integral):
        raise UserError(f"encoded_views is {estimator.encoded_views!r}, expected a whole number")
    views = encode.default_cached_views(int(estimator.encoded_views), seed)
    if isinstance(opened, Table):
        preparation = encode.fit_preprocessor(opened, encoder_of(estimator))
        preparation.check_views(views)  # before the encoder's work
        rows, cached = preparation.transform(opened, views)
    elif encoder_of(estimator) is not None or views.count:
        raise UserError(
            f"X holds numbers or images, so encoder={estimator.encoder!r} and encoded_views={views.count} mean "
            "nothing; an encoder reads texts, picture files and uint8 images"
        )
    shape = tuple(rows.shape[1:])
    if rows.dtype == np.uint8:
        return rows, None, Reader(shape, preparation=preparation)
    rows = rows.astype(np.float64, copy=False)
    unit = np.abs(rows).max(axis=0)  # first: the square of 1e200 is no number, that of 1e-200 is 0
    unit[unit == 0] = 1.0
    mean, std = column_statistics(rows / unit)
    reader = Reader(shape, mean * unit, std * unit, preparation)
    return reader.scaled(rows), None if cached is None else reader.scaled(cached), reader


def opened_first(estimator: Any, X: Any) -> Any:
    """X of a fit: float64 [n, d], uint8 [n, C, H, W], or a table that has to be prepared.

    Sets `n_features_in_` and `feature_names_in_`; texts and pictures have neither.
    """
    if (entries := entries_of(X)) is not None:
        for name in ("n_features_in_", "feature_names_in_"):  # of an earlier fit
            if hasattr(estimator, name):
                delattr(estimator, name)
        return raw_table(entries, kind_of_entries(entries, encoder_of(estimator)))
    if has_words(X) or has_gaps(X):
        validate_data(estimator, X, reset=True, skip_check_array=True)  # the names, and how many there are
        return rows_table(len(X), columns=frame_columns(X, "X"))
    rows = check(estimator, X, fitting=True)
    return rows_table(len(rows), array=rows) if rows.ndim == 4 and encoder_of(estimator) is not None else rows


def opened_again(estimator: Any, X: Any, preparation: Preprocessor | None) -> Any:
    """X of a prediction, which has to be of the kind that was fitted."""
    entries = entries_of(X)
    if preparation is None:
        if entries is not None:
            raise UserError("X holds texts, expected numbers as in fit")
        if has_words(X):
            raise UserError("X has columns of words, expected numbers as in fit")
        return check(estimator, X, fitting=False)
    if preparation.kind == "columns" and entries is None and is_frame(X):
        validate_data(estimator, X, reset=False, skip_check_array=True)
        return rows_table(len(X), columns=frame_columns(X, "X"))
    if preparation.kind in ("text", "image") and entries is not None:
        return raw_table(entries, preparation.kind)
    images = X.detach().cpu().numpy() if isinstance(X, torch.Tensor) else X
    if preparation.kind == "image" and is_images(images):
        return rows_table(len(images), array=check_images(estimator, images, fitting=False))
    raise UserError(f"X is a {type(X).__name__}, expected {EXPECTED[preparation.kind]} as in fit")


def encoder_of(estimator: Any) -> Any:
    """The parameter `encoder` as `pars.encode` takes it."""
    given = estimator.encoder
    if given is None or isinstance(given, str) or callable(given):
        return given
    if isinstance(given, os.PathLike):
        return str(given)
    raise UserError(f"encoder is {given!r}, expected a name, a path or a function")


def check(estimator: Any, X: Any, *, fitting: bool) -> Any:
    """X as float64 [n, d] or uint8 [n, C, H, W], or the error that scikit-learn would raise."""
    X = X.detach().cpu().numpy() if isinstance(X, torch.Tensor) else X
    if is_images(X):
        return check_images(estimator, X, fitting=fitting)
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


def has_gaps(X: Any) -> bool:
    """Whether X is a frame with missing values: they are filled in, and said to be; in an array they are a mistake."""
    if getattr(X, "columns", None) is None or getattr(X, "dtypes", None) is None:
        return False
    if hasattr(X, "isna"):
        return bool(X.isna().to_numpy().any())
    floats = (X[name] for name, kind in zip(X.columns, X.dtypes, strict=True) if str(kind).startswith("Float"))
    return any(X[name].null_count() for name in X.columns) or any(bool(column.is_nan().any()) for column in floats)


def is_word_column(column: Any, kind: str) -> bool:
    return kind.startswith(WORDS) or (kind == "object" and any(isinstance(value, str) for value in column))
