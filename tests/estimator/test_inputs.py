"""What X and y may be, and what is said of those that make no sense."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from estimator.data import QUICK, clouds, small_images
from pars import PARSClassifier, RobustClassifier
from pars.errors import UserError


def test_tensors_lists_and_frames_are_read_like_arrays() -> None:
    pd = pytest.importorskip("pandas")
    x, y, _ = clouds(60)
    expected = PARSClassifier(**QUICK).fit(x, y).predict_proba(x)
    for other_x, other_y in (
        (torch.from_numpy(x), torch.from_numpy(y)),
        (x.tolist(), y.tolist()),
        (pd.DataFrame(x, columns=list("abcd")), pd.Series(y)),
    ):
        model = PARSClassifier(**QUICK).fit(other_x, other_y)
        assert_array_equal(model.predict_proba(other_x), expected)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.n_features_in_ == 4


def test_polars_frames_are_read_too() -> None:
    pl = pytest.importorskip("polars")
    x, y, _ = clouds(60)
    frame = pl.DataFrame(x, schema=list("abcd"))
    model = PARSClassifier(**QUICK).fit(frame, pl.Series(y))
    assert_array_equal(model.predict_proba(frame), PARSClassifier(**QUICK).fit(x, y).predict_proba(x))
    assert model.feature_names_in_.tolist() == list("abcd")


@pytest.mark.parametrize("kind", ["str", "category", "object"])
def test_columns_of_words_are_read_as_categories(kind: str) -> None:
    pd = pytest.importorskip("pandas")
    colors = np.array(["red", "blue", "green"])
    x, y, _ = clouds(90, d=1)
    frame = pd.DataFrame({"length": 0 * x[:, 0] + np.arange(90) % 7, "color": pd.Series(colors[y]).astype(kind)})
    model = PARSClassifier(epochs=20, random_state=0).fit(frame, y)
    assert model.score(frame, y) == 1.0
    assert model.feature_names_in_.tolist() == ["length", "color"]
    assert model.n_features_in_ == 2
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(frame), model.predict_proba(frame))
    strange = frame.assign(color="mauve")
    assert np.isfinite(model.predict_proba(strange)).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"color": "hue"}))


def test_words_where_fit_had_numbers_are_refused_and_so_are_texts() -> None:
    pd = pytest.importorskip("pandas")
    x, y, _ = clouds(30, d=2)
    model = PARSClassifier(**QUICK).fit(pd.DataFrame(x, columns=["a", "b"]), y)
    with pytest.raises(UserError, match="columns of words, expected numbers as in fit"):
        model.predict(pd.DataFrame({"a": ["x"], "b": ["y"]}))
    with pytest.raises(UserError, match="X holds texts, expected numbers as in fit"):
        model.predict(["a text", "another"])


def test_columns_of_huge_and_of_tiny_numbers_are_told_apart_in_float64() -> None:
    x, y, _ = clouds(120)
    units = x * [1e-200, 1.0, 1e200, 1e-3] + [0.0, 1e9, 0.0, -1e6]  # 1e9 ± 1 is one number in float32
    model = PARSClassifier(**QUICK).fit(units, y)
    assert_allclose(model.predict_proba(units), PARSClassifier(**QUICK).fit(x, y).predict_proba(x), atol=1e-3)


@pytest.mark.parametrize("color", [False, True])
def test_images_are_read_as_images(color: bool) -> None:
    images, labels = small_images(color=color)
    model = PARSClassifier(epochs=6, random_state=0).fit(images, labels)
    assert model.n_features_in_ == images[0].size
    assert type(model.model_.networks[0]).__name__ == "SmallCNN"
    assert model.score(images, labels) == 1.0
    assert_array_equal(model.predict_proba(images[::-1]), model.predict_proba(images)[::-1])
    assert_array_equal(model.predict(torch.from_numpy(images)), model.predict(images))
    with pytest.raises(UserError, match=r"rows have shape \[.*6, 8\], those of training had \[.*8, 8\]"):
        model.predict(images[:, :6])


def test_images_of_other_numbers_are_refused() -> None:
    images, labels = small_images()
    with pytest.raises(ValueError, match="dim 3"):
        PARSClassifier(**QUICK).fit(images / 255, labels)


def test_labels_may_be_words_or_any_numbers() -> None:
    x, y, true = clouds(wrong=0.1)
    for names in (np.array(["a", "b", "c"]), np.array([-1, 7, 100]), np.array([0.0, 1.0, 2.0]), [True, False]):
        classes = np.asarray(names)
        rows = np.maximum(y, true) < len(classes)
        model = PARSClassifier(epochs=10, random_state=0).fit(x[rows], classes[y[rows]])
        assert_array_equal(model.classes_, np.unique(classes))
        assert model.predict(x).dtype == classes.dtype
        assert (model.predict(x[rows]) == classes[true[rows]]).mean() > 0.9


@pytest.mark.parametrize(
    ("unlabeled", "marker"), [(-1, -1), (None, None), (np.nan, np.nan), (np.nan, None), (None, np.nan), ("", "")]
)
def test_rows_without_a_label_are_told_by_their_mark(unlabeled: Any, marker: Any) -> None:
    x, y, true = clouds(200)
    words = isinstance(marker, str)
    given = [marker if row % 5 else (f"class {label}" if words else int(label)) for row, label in enumerate(y)]
    model = PARSClassifier(unlabeled=unlabeled, epochs=20, random_state=0).fit(x, given)
    assert model.classes_.tolist() == (["class 0", "class 1", "class 2"] if words else [0, 1, 2])
    expected = np.array([f"class {label}" for label in true]) if words else true
    assert (model.predict(x) == expected).mean() > 0.9


def test_rows_without_a_label_are_not_trained_on_as_a_class() -> None:
    x, y, _ = clouds(60)
    far = np.full((20, 4), 50.0)
    model = RobustClassifier("ce", unlabeled=-1, **QUICK).fit(np.vstack([x, far]), np.append(y, np.full(20, -1)))
    assert model.predict_proba(far).shape == (20, 3)


def test_minus_one_is_a_class_unless_said_otherwise() -> None:
    x, y, _ = clouds(60, k=2)
    assert PARSClassifier(**QUICK).fit(x, 2 * y - 1).classes_.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("y", "unlabeled", "said"),
    [
        ([1.0, np.nan, 0.0, 1.0], "refuse", "NaN"),
        (["a", None, "b", "a"], "refuse", "row 1 is None; .* unlabeled=None"),
        ([-1, -1, -1, -1], -1, "all 4 rows are unlabeled"),
        ([3, 3, 3, 3], "refuse", "y has 1 class"),
        ([3, -1, 3, -1], -1, "y has 1 class"),
        ([0.5, 1.5, 2.5, 0.1], "refuse", "Unknown label type"),
        ([0, 1, 0], "refuse", "inconsistent numbers of samples"),
        (None, "refuse", "y is None"),
    ],
)
def test_labels_that_make_no_sense_are_refused(y: Any, unlabeled: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        PARSClassifier(unlabeled=unlabeled, **QUICK).fit(np.arange(8.0).reshape(4, 2), y)


@pytest.mark.parametrize(("n", "d"), [(2, 1), (2, 5), (3, 1), (20, 1), (20, 30)])
def test_a_handful_of_rows_is_enough_to_fit(n: int, d: int) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    x = rng.standard_normal((n, d)) + 10 * y[:, None]
    model = PARSClassifier(random_state=0).fit(x, y)
    assert model.score(x, y) == 1.0
    assert np.isfinite(model.predict_proba(x)).all()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_missing_numbers_of_a_frame_are_filled_in(library: str) -> None:
    frames = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    a, b = y * 4.0 + rng.standard_normal(200), rng.standard_normal(200)
    a[::7] = np.nan
    model = RobustClassifier("ce", epochs=20, random_state=0).fit(frames.DataFrame({"a": a, "b": b}), y)
    known = ~np.isnan(a)
    assert (model.predict(frames.DataFrame({"a": a, "b": b})) == y)[known].mean() > 0.95
    with pytest.raises(ValueError, match="NaN"):
        RobustClassifier("ce").fit(np.stack([a, b], axis=1), y)
