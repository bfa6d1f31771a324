"""X as people have it, to rows as the library reads them: feature vectors float32 [n, d], or images uint8 [n, C, H, W].

Numbers are checked as scikit-learn checks them. Everything else (texts, image files, frames with words in them,
images for an encoder) becomes a table that `encode.prepare` learns to read, as `pars fit` does.
"""

from __future__ import annotations

import datetime
import os
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import validate_data

from pars import encode
from pars.autoconfig import pixel_side
from pars.data import (
    UNLABELED,
    Dataset,
    Split,
    Table,
    channel_statistics,
    column_statistics,
    entries,
    entry_table,
    frame_columns,
    is_frame,
    kind_of_entries,
    standardize,
    table_of,
    to_inputs,
)
from pars.encode import Preprocessor
from pars.errors import UserError
from pars.fitting import reads_texts

# How frames name columns of words, and of dates and times, which are read as such.
WORDS = ("str", "utf8", "categ", "enum", "date", "time", "duration", "period", "interval")
EXPECTED = {"text": "texts", "image": "paths of images, or arrays of images", "columns": "a frame with the columns"}


def fit_rows(estimator: Any, opened: Any, seed: int) -> tuple[Dataset, Preprocessor | None]:
    """The training rows as a data set without labels, and how later rows become its inputs, where that is needed.

    opened: what `opened_first` made of X. Features are standardized in float64, before they become float32.
    """
    rows, cached, preprocessor = opened, None, None
    if not isinstance(estimator.encoded_views, Integral):
        raise UserError(f"encoded_views is {estimator.encoded_views!r}, expected a whole number")
    views = encode.default_cached_views(int(estimator.encoded_views), seed)
    if isinstance(opened, Table):
        preprocessor = encode.fit_preprocessor(
            opened,
            encoder_of(estimator),
            side=pixel_side(estimator.network),
            network=text_network(estimator.network, opened),
        )
        preprocessor.check_views(views)  # before the encoder's work
        rows, cached = preprocessor.transform(opened, views)
    elif encoder_of(estimator) is not None or views.count:
        raise UserError(
            f"X holds numbers or images, so encoder={estimator.encoder!r} and encoded_views={views.count} mean "
            "nothing; an encoder reads texts, image files and uint8 images"
        )
    unlabeled = np.full(len(rows), UNLABELED, dtype=np.int64)
    if rows.dtype == np.uint8:
        mean, std = channel_statistics(rows)
        return Dataset("X", Split(rows, unlabeled), None, (), mean, std), preprocessor
    if rows.dtype == np.int32:
        return Dataset("X", Split(rows, unlabeled), None, ()), preprocessor
    means, deviations = column_statistics(rows.astype(np.float64, copy=False))
    mean, std = tuple(means.tolist()), tuple(deviations.tolist())
    scaled = standardize(rows, mean, std, "X")
    scaled_views = None if cached is None else standardize(cached, mean, std, "X")
    return Dataset("X", Split(scaled, unlabeled, cached=scaled_views), None, (), mean, std), preprocessor


def read_rows(estimator: Any, X: Any, preprocessor: Preprocessor | None) -> Any:
    """Rows of a prediction as inputs of the classifier, not standardized."""
    opened = opened_again(estimator, X, preprocessor)
    if not isinstance(opened, Table):
        return opened
    assert preprocessor is not None
    return preprocessor.transform(opened)[0]


def opened_first(estimator: Any, X: Any) -> Any:
    """X of a fit: float64 [n, d], uint8 [n, C, H, W], or a table that has to be prepared.

    Sets `n_features_in_` and `feature_names_in_`; texts and images have neither.
    """
    if (found := entries(X, "X")) is not None:
        for name in ("n_features_in_", "feature_names_in_"):  # of an earlier fit
            if hasattr(estimator, name):
                delattr(estimator, name)
        return entry_table(found, kind_of_entries(found, encoder_of(estimator), "X"), "X")
    if has_words(X) or has_gaps(X):
        validate_data(estimator, X, reset=True, skip_check_array=True)  # the names, and how many there are
        return table_of("X", len(X), columns=frame_columns(X, "X"))
    rows = check(estimator, X, fitting=True)
    return table_of("X", len(rows), array=rows) if rows.ndim == 4 and encoder_of(estimator) is not None else rows


def opened_again(estimator: Any, X: Any, preprocessor: Preprocessor | None) -> Any:
    """X of a prediction, which has to be of the kind that was fitted."""
    found = entries(X, "X")
    if preprocessor is None:
        if found is not None:
            raise UserError("X holds texts, expected numbers as in fit")
        if has_words(X):
            raise UserError("X has columns of words, expected numbers as in fit")
        return check(estimator, X, fitting=False)
    if preprocessor.kind == "columns" and found is None and is_frame(X):
        validate_data(estimator, X, reset=False, skip_check_array=True)
        return table_of("X", len(X), columns=frame_columns(X, "X"))
    if preprocessor.kind in ("text", "image") and found is not None:
        return entry_table(found, preprocessor.kind, "X")
    images = X.detach().cpu().numpy() if isinstance(X, torch.Tensor) else X
    if preprocessor.kind == "image" and is_images(images):
        return table_of("X", len(images), array=check_images(estimator, images, fitting=False))
    raise UserError(f"X is a {type(X).__name__}, expected {EXPECTED[preprocessor.kind]} as in fit")


def text_network(network: Any, opened: Table) -> Any:
    """The network, if it reads the texts of X as they are."""
    if opened.kind != "text" or pixel_side(network) is None:
        return None
    if not reads_texts(network):
        raise UserError(f"network is {network!r}, which trains on images, but X holds texts; a text network is hf:NAME")
    return network


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
    """Whether X is an array of images: uint8 [n, h, w], [n, h, w, c] or [n, c, h, w]."""
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
    return kind.startswith(WORDS) or (
        kind == "object" and any(isinstance(value, str | datetime.date) for value in column)
    )
