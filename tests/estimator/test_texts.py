"""Texts and image files as X: read as they are, by the same encoder every time; and the first bad one named."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from estimator.data import QUICK, small_images
from pars import PARSClassifier
from pars.errors import UserError
from pars.estimator import EncoderChosenWarning

WORDS = {
    "bank": ["card", "pin", "cash", "debit", "credit", "limit"],
    "post": ["parcel", "box", "letter", "courier", "street", "truck"],
}
FIT: dict[str, Any] = {"encoder": "tfidf", "epochs": 15, "random_state": 0}


def messages(n: int = 80, wrong: float = 0.0, seed: int = 0) -> tuple[list[str], Any, Any]:
    """Texts about two topics, given labels, right labels."""
    rng = np.random.default_rng(seed)
    true = np.array(list(WORDS))[np.arange(n) % 2]
    texts = [f"please {' '.join(rng.choice(WORDS[topic], 6))} now" for topic in true]
    other = np.where(true == "bank", "post", "bank")
    return texts, np.where(rng.random(n) < wrong, other, true), true


@pytest.fixture(scope="module")
def fitted() -> Any:
    texts, given, _ = messages(160, wrong=0.15)
    return PARSClassifier(encoder="tfidf", random_state=0).fit(texts, given)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Any]:
    folder = tmp_path_factory.mktemp("files")
    images, labels = small_images(40)
    names = [str(folder / f"{row}.png") for row in range(len(images))]
    for name, image in zip(names, images, strict=True):
        Image.fromarray(image).save(name)
    return names, labels


def word_counts(texts: list[str]) -> Any:
    vocabulary = [word for words in WORDS.values() for word in words]
    return CountVectorizer(vocabulary=vocabulary).transform(texts).toarray()


def test_wrong_labels_of_texts_are_not_learned_and_found(fitted: Any) -> None:
    texts, given, true = messages(160, wrong=0.15)
    new, _, right = messages(seed=1)
    assert (fitted.predict(new) == right).mean() > 0.95
    report = fitted.audit(texts)
    wrong = given != true
    assert roc_auc_score(wrong, 1 - report.label_right_prob) > 0.95
    assert (report.suggested_label == true).mean() > 0.9
    assert not hasattr(fitted, "n_features_in_")


def test_without_an_encoder_tfidf_is_taken_and_that_is_said_once() -> None:
    texts, given, _ = messages(40)
    with pytest.warns(EncoderChosenWarning, match="TF-IDF") as said:
        unnamed = PARSClassifier(**QUICK).fit(texts, given)
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named = PARSClassifier(encoder="tfidf", **QUICK).fit(texts, given)
        assert_array_equal(named.predict_proba(texts), unnamed.predict_proba(texts))


def test_arrays_and_series_of_texts_are_read_like_lists(fitted: Any) -> None:
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    texts = messages(seed=1)[0]
    expected = fitted.predict_proba(texts)
    for same in (
        tuple(texts),
        np.array(texts),
        np.array(texts, object),
        pd.Series(texts),
        pl.Series(texts),
        pa.array(texts),
    ):
        assert_array_equal(fitted.predict_proba(same), expected)


def test_a_text_is_answered_alike_alone_and_among_others(fitted: Any) -> None:
    texts = messages(seed=2)[0]
    whole = fitted.predict_proba(texts)
    assert_array_equal(fitted.predict_proba(texts[::-1]), whole[::-1])
    np.testing.assert_allclose(fitted.predict_proba(texts[5:6]), whole[5:6], atol=1e-6)


def test_a_pickled_classifier_reads_texts_with_the_same_encoder(fitted: Any) -> None:
    texts = messages(seed=1)[0]
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict_proba(texts), fitted.predict_proba(texts))
    assert_array_equal(again.audit(messages(160, wrong=0.15)[0]).rank, fitted.audit(messages(160, wrong=0.15)[0]).rank)


def test_any_function_is_an_encoder() -> None:
    texts, given, _ = messages(40)
    by_function = PARSClassifier(encoder=word_counts, **QUICK).fit(texts, given)
    by_hand = PARSClassifier(**QUICK).fit(word_counts(texts), given)
    assert_array_equal(by_function.predict_proba(texts), by_hand.predict_proba(word_counts(texts)))
    assert_array_equal(pickle.loads(pickle.dumps(by_function)).predict(texts), by_function.predict(texts))
    assert clone(by_function).encoder is word_counts


def test_texts_work_in_pipelines_and_cross_validation() -> None:
    texts, given, true = messages(60)
    model = make_pipeline(FunctionTransformer(lambda rows: [row.upper() for row in rows]), PARSClassifier(**FIT))
    assert (cross_val_predict(model, texts, given, cv=2) == true).mean() > 0.9


def test_views_of_texts_are_trained_on() -> None:
    texts, given, _ = messages(40)
    counts: list[Any] = [0, np.int64(2)]
    plain, viewed = (PARSClassifier(**FIT, encoded_views=n).fit(texts, given) for n in counts)
    assert (type(plain.model_.views.weak).__name__, type(viewed.model_.views.weak).__name__) == (
        "FeatureDropout",
        "CachedView",
    )
    assert not np.array_equal(plain.predict_proba(texts), viewed.predict_proba(texts))


def test_small_image_files_are_read_like_the_array_of_their_pixels(files: tuple[list[str], Any]) -> None:
    names, labels = files
    images = small_images(40)[0]
    with pytest.warns(EncoderChosenWarning, match="on the pixels of 40 small images"):
        model = PARSClassifier(**QUICK).fit(names, labels)
    expected = PARSClassifier(**QUICK).fit(images, labels).predict_proba(images)
    assert_array_equal(model.predict_proba([Path(name) for name in names]), expected)
    assert_array_equal(model.predict_proba(images), expected)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(names), expected)
    with pytest.raises(UserError, match=r"row 1: there is no image file nowhere\.png"):
        model.predict([names[0], "nowhere.png"])


def test_an_encoder_reads_files_and_arrays_of_images_alike(files: tuple[list[str], Any]) -> None:
    names, labels = files
    color = np.repeat(small_images(40)[0][..., None], 3, axis=3)
    by_array = PARSClassifier(encoder="pixels", **QUICK).fit(color, labels)
    assert type(by_array.model_.networks[0]).__name__ == "MLP"
    assert by_array.score(color, labels) == by_array.score(color[::-1], labels[::-1]) > 0.9
    by_file = PARSClassifier(encoder="pixels", **QUICK).fit(names, labels)
    assert by_file.score(names, labels) > 0.9


def test_free_texts_in_a_frame_are_learned_from() -> None:
    pd = pytest.importorskip("pandas")
    texts, given, true = messages(60)
    frame = pd.DataFrame({"size": np.arange(60) % 7, "body": texts})
    with pytest.warns(EncoderChosenWarning, match="free texts in 'body'"):
        model = PARSClassifier(epochs=15, random_state=0).fit(frame, given)
    assert model.score(frame, true) > 0.95
    assert model.feature_names_in_.tolist() == ["size", "body"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["size"]])
    with pytest.raises(UserError, match="X is a list, expected a frame with the columns as in fit"):
        model.predict(texts)


@pytest.mark.parametrize(
    ("X", "params", "said"),
    [
        (["a b", None, "c d"], {}, "X: row 1 is None, expected a text"),
        (["a b", float("nan"), "c d"], {}, "X: row 1 is nan, expected a text"),
        (["a b", "c d", 5], {}, r"X: row 2 is '5' \(int\), expected a text"),
        (["a b"] * 3, {}, "all 3 texts are the same"),
        (["", " ", ""], {}, "no word occurs often enough"),
        (["a b", "c d"], {}, "inconsistent numbers of samples"),
        ("a text", {}, "X is one text, 'a text', expected a list"),
        (["a b", "c d", "e"], {"encoder": "nonsense"}, "unknown encoder 'nonsense'; choose from: tfidf"),
        (["a b", "c d", "e"], {"encoder": 5}, "encoder is 5, expected a name, a path or a function"),
        (["a b", "c d", "e"], {"encoder": Path("nowhere.onnx")}, "unknown encoder 'nowhere.onnx'"),
        (["a b", "c d", "e"], {"encoder": "pixels"}, "pixels reads images, but the rows are texts"),
        (["a b", "c d", "e"], {"encoder": lambda texts: [[1.0]]}, r"returned shape \[1, 1\] for 3 rows"),
        (["a b", "c d", "e"], {"encoder": lambda texts: [[np.nan]] * 3}, "X: row 0: the encoder .* not finite"),
        (["a b", "c d", "e"], {"encoded_views": "x"}, "encoded_views is 'x', expected a whole number"),
        (["a b", "c d", "e"], {"encoded_views": -1}, "views: -1, expected 0 or more"),
        (["a.jpg", "b.jpg", "c.jpg"], {}, "X: row 0: there is no image file a.jpg, nor any .* encoder='tfidf'"),
        ([Path("a"), Path("b"), Path("c")], {}, "X: row 0: there is no image file a"),
        (np.eye(3), {"encoder": "tfidf"}, "X holds numbers or images, so encoder='tfidf'"),
        (np.eye(3), {"encoded_views": 2}, "encoded_views=2 mean nothing"),
    ],
)
@pytest.mark.filterwarnings("ignore::pars.estimator.EncoderChosenWarning")
def test_rows_that_make_no_sense_are_named(X: Any, params: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        PARSClassifier(**QUICK, **params).fit(X, [0, 1, 0])


def test_a_text_among_images_and_a_broken_image_are_named(files: tuple[list[str], Any], tmp_path: Path) -> None:
    names, labels = files
    with pytest.raises(UserError, match=r"X: row 1 is 'a text' \(str\), but row 0 is an image file"):
        PARSClassifier(**QUICK).fit([names[0], "a text"], [0, 1])
    (tmp_path / "bad.png").write_text("no image")
    with pytest.raises(UserError, match=r"X: row 40: .*bad\.png cannot be read as an image"):
        PARSClassifier(**QUICK).fit([*names, str(tmp_path / "bad.png")], [*labels, 0])


def test_names_of_images_that_are_not_there_may_be_texts() -> None:
    names = [f"{word}-{row}.jpg" for row in range(10) for word in ("cat", "dog")]
    model = PARSClassifier(**FIT).fit(names, [name[:3] for name in names])
    assert model.predict(["dog-77.jpg"]).tolist() == ["dog"]


def test_other_rows_than_those_of_fit_are_refused(fitted: Any) -> None:
    with pytest.raises(UserError, match="X is a ndarray, expected texts as in fit"):
        fitted.predict(np.eye(3))
    with pytest.raises(UserError, match="X: row 1 is None, expected a text"):
        fitted.predict(["a b", None])
    assert fitted.predict_proba([""]).shape == (1, 2)
