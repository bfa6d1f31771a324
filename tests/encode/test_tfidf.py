"""TF-IDF and a truncated SVD, against scikit-learn's own pipeline; and its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import Normalizer

from pars.encode import encoder, load_encoder, save_encoder
from pars.errors import UserError

RNG = np.random.default_rng(0)
WORDS = np.array(["card", "cards", "arrive", "arrived", "lost", "where", "my", "is", "größe", "卡"])
TEXTS = [" ".join(RNG.choice(WORDS, 6)) for _ in range(80)]
NEW = ["where is my card", "never seen", "", "卡卡卡"]


def test_features_are_those_of_a_scikit_learn_pipeline_but_rotated() -> None:
    found = encoder("tfidf").fitted(TEXTS)
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b")
    pieces = TfidfVectorizer(sublinear_tf=True, min_df=2, analyzer="char_wb", ngram_range=(3, 5))
    pipeline = make_pipeline(make_union(words, pieces), TruncatedSVD(32, random_state=0), Normalizer()).fit(TEXTS)
    ours, theirs = found.encode(TEXTS + NEW), pipeline.transform(TEXTS + NEW)
    np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-5)
    spread, of_svd = ours.std(axis=0), theirs.std(axis=0)
    assert of_svd.max() / of_svd.min() > 3 > spread.max() / spread.min()  # no direction is noise alone
    assert found.encode(NEW).dtype == np.float32


def test_a_row_is_encoded_by_itself() -> None:
    found = encoder("tfidf").fitted(TEXTS)
    whole = found.encode(TEXTS)
    np.testing.assert_allclose(np.concatenate([found.encode([text]) for text in TEXTS]), whole, atol=1e-6)


def test_it_is_saved_without_pickle_and_gives_the_same_features(tmp_path: Path) -> None:
    found = encoder("tfidf").fitted(TEXTS)
    save_encoder(found, tmp_path / "e")
    assert sorted(file.name for file in (tmp_path / "e").iterdir()) == [
        "encoder.json",
        "tfidf.safetensors",
        "vocabulary.json",
    ]
    for again in (load_encoder(tmp_path / "e"), encoder(str(tmp_path / "e"))):
        assert again.encode(TEXTS + NEW).tobytes() == found.encode(TEXTS + NEW).tobytes()


def test_it_has_to_see_texts_first_and_texts_that_say_something() -> None:
    with pytest.raises(UserError, match="must be fitted to training texts first"):
        encoder("tfidf").encode(TEXTS)
    for texts in (["", " "], ["."], []):
        with pytest.raises(UserError, match="text"):
            encoder("tfidf").fitted(texts)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "encoder.json").unlink(), "contains no saved encoder"),
        (lambda folder: (folder / "vocabulary.json").unlink(), "vocabulary.json is missing"),
        (lambda folder: (folder / "tfidf.safetensors").write_bytes(b"\0" * 100), "damaged"),
        (lambda folder: (folder / "vocabulary.json").write_text('{"words": ["a"], "pieces": []}'), "does not fit"),
        (lambda folder: (folder / "vocabulary.json").write_text("[]"), "damaged"),
        (lambda folder: (folder / "encoder.json").write_text("{}"), "damaged"),
        (lambda folder: rename(folder, "python:os:system"), "may not run code"),
        (lambda folder: rename(folder, "somewhere"), "is not an encoder"),
        (lambda folder: rename(folder, 7), "damaged"),
    ],
)
def test_damaged_folders_are_refused(damage: Any, words: str, tmp_path: Path) -> None:
    save_encoder(encoder("tfidf").fitted(TEXTS), tmp_path)
    damage(tmp_path)
    with pytest.raises(UserError, match=words):
        load_encoder(tmp_path)


def rename(folder: Path, name: object) -> None:
    content = json.loads((folder / "encoder.json").read_text())
    (folder / "encoder.json").write_text(json.dumps(content | {"name": name}))
