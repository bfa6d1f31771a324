"""Texts without any network: TF-IDF of words and pieces of words, then a truncated SVD (latent semantic analysis)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars import seeds
from pars.encode.encoder import Encoder, Features
from pars.errors import UserError
from pars.files import write_atomically, write_text

FEATURES = 50_000  # of each kind, the most frequent ones
DIMENSIONS = 512  # at most
ROWS_PER_DIMENSION, LEAST = 4, 32  # with nearly as many directions as texts a network learns every label by heart
VOCABULARY, TENSORS = "vocabulary.json", "tfidf.safetensors"
# Pieces of words help where a language bends its words, where people mistype, and where no blanks divide words.
KINDS: dict[str, dict[str, Any]] = {
    "words": {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"(?u)\b\w+\b"},
    "pieces": {"analyzer": "char_wb", "ngram_range": (3, 5)},
}


def tfidf(dimensions: int = DIMENSIONS) -> Encoder:
    """The encoder before it has seen training texts: `fit` returns the one to use.

    >>> encoder = tfidf(dimensions=2).fitted(["a cat sat", "a dog sat", "the cat ran", "the dog ran"])
    >>> encoder.encode(["a cat sat", "a dog sat"]).shape
    (2, 2)
    """

    def not_yet(texts: Sequence[str]) -> Features:
        raise UserError('tfidf learns its words from training texts first: encoder("tfidf").fitted(texts)')

    return Encoder("tfidf", "text", not_yet, batch=512, fit=lambda texts: fit(texts, dimensions).encoder())


@dataclass(frozen=True, eq=False)
class TfIdf:
    """words, pieces: the vocabulary in order; idf [w + p]; components [dimensions, w + p]."""

    words: tuple[str, ...]
    pieces: tuple[str, ...]
    idf: npt.NDArray[np.float32]
    components: npt.NDArray[np.float32]

    def encoder(self) -> Encoder:
        from scipy.sparse import hstack
        from sklearn.preprocessing import normalize

        vectorizers = []
        start = 0
        for kind, vocabulary in (("words", self.words), ("pieces", self.pieces)):
            if vocabulary:
                vectorizer = _vectorizer(kind, vocabulary={word: at for at, word in enumerate(vocabulary)})
                vectorizer.idf_ = self.idf[start : start + len(vocabulary)].astype(np.float64)
                vectorizers.append(vectorizer)
            start += len(vocabulary)

        def encode(texts: Sequence[str]) -> Features:
            counts = hstack([vectorizer.transform(texts) for vectorizer in vectorizers]).tocsr()
            return normalize(counts @ self.components.T.astype(np.float64)).astype(np.float32)  # type: ignore[no-any-return]

        identity = {"words": len(self.words), "pieces": len(self.pieces), "dimensions": len(self.components)}
        return Encoder("tfidf", "text", encode, batch=512, identity=identity, save=self.save, source=self)

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        words = {"words": self.words, "pieces": self.pieces}
        write_text(folder / VOCABULARY, json.dumps(words, ensure_ascii=False) + "\n")
        tensors = {"idf": self.idf, "components": np.ascontiguousarray(self.components)}
        write_atomically(folder / TENSORS, lambda beside: save_file(tensors, beside))

    @classmethod
    def load(cls, folder: Path) -> TfIdf:
        """A UserError where the two files do not fit together."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            words = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
            tensors = load_file(folder / TENSORS)
            vocabularies = (tuple(words["words"]), tuple(words["pieces"]))
            idf, components = tensors["idf"], tensors["components"]
        except FileNotFoundError as error:
            raise UserError(f"{folder}: {Path(error.filename or VOCABULARY).name} is missing") from None
        except (OSError, ValueError, KeyError, TypeError, SafetensorError, RecursionError) as error:
            raise UserError(f"{folder}: the saved TF-IDF encoder is damaged ({error!r})") from None
        width = sum(map(len, vocabularies))
        entries = [word for vocabulary in vocabularies for word in vocabulary]
        fits = idf.shape == (width,) and components.ndim == 2 and components.shape[1] == width and width
        if (
            not fits
            or not all(isinstance(word, str) for word in entries)
            or any(len(set(v)) < len(v) for v in vocabularies)
        ):
            raise UserError(f"{folder}: {VOCABULARY} has {width} entries, which does not fit {TENSORS}")
        if not np.isfinite(idf).all() or not np.isfinite(components).all():
            raise UserError(f"{folder}: {TENSORS} holds values that are not finite")
        return cls(*vocabularies, idf, components)


def fit(texts: Sequence[str], dimensions: int = DIMENSIONS) -> TfIdf:
    """Learn vocabulary, weights and directions from training texts; the same texts give the same encoder."""
    from scipy.sparse import hstack
    from sklearn.decomposition import TruncatedSVD

    blocks, vocabularies, idf = [], {}, []
    for kind in KINDS:
        vectorizer = _vectorizer(kind, min_df=2 if len(texts) >= 50 else 1, max_features=FEATURES)
        try:
            blocks.append(vectorizer.fit_transform(texts))
        except ValueError:  # nothing occurs often enough
            vocabularies[kind] = ()
            continue
        vocabularies[kind] = tuple(vectorizer.get_feature_names_out().tolist())
        idf.append(vectorizer.idf_)
    if not blocks:
        raise UserError(
            f"{len(texts)} texts share no word, so nothing can be learned from their words; are they empty?"
        )
    counts = hstack(blocks).tocsr()
    dimensions = min(dimensions, max(LEAST, len(texts) // ROWS_PER_DIMENSION), min(counts.shape) - 1)
    if dimensions < 1:
        raise UserError("texts of a single word among them: expected at least two different words and two texts")
    svd = TruncatedSVD(dimensions, random_state=0).fit(counts)
    components = (rotation(dimensions) @ svd.components_).astype(np.float32)
    return TfIdf(vocabularies["words"], vocabularies["pieces"], np.concatenate(idf).astype(np.float32), components)


def rotation(dimensions: int) -> npt.NDArray[np.float64]:
    """A fixed orthogonal matrix [d, d].

    The directions of an SVD come in order of how much they say. Standardized one by one, as features are before
    training, the last of them, mere noise, would count as much as the first. Rotated at random, all are alike, as those
    of a network are, and distances stay what they were.
    """
    square = seeds.generator(0, "tfidf/rotation").standard_normal((dimensions, dimensions))
    return np.linalg.qr(square).Q


def _vectorizer(kind: str, **options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer  # here: importing scikit-learn takes a second or two

    return TfidfVectorizer(sublinear_tf=True, **KINDS[kind], **options)
