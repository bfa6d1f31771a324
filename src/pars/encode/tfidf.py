"""TF-IDF of words and character n-grams, then a truncated SVD (latent semantic analysis): texts without a network."""

from __future__ import annotations

import json
import logging
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

log = logging.getLogger(__name__)

VOCABULARY_FILE, TENSORS_FILE = "vocabulary.json", "tfidf.safetensors"
_MAX_TERMS = 50_000  # of each kind, the most frequent ones
_MAX_LENGTH = 100_000  # characters of a text that are read: one cell of 10 MB would take 2 GB and a minute
_MAX_DIMENSIONS = 512
_ROWS_PER_DIMENSION, _MIN_DIMENSIONS = 4, 32  # with nearly as many dimensions as texts a network memorizes every label
# Character n-grams help with inflected words, typing errors, and languages without spaces between words.
_TERM_KINDS: dict[str, dict[str, Any]] = {
    "words": {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"(?u)\b\w+\b"},
    "pieces": {"analyzer": "char_wb", "ngram_range": (3, 5)},
}


def tfidf(dimensions: int = _MAX_DIMENSIONS) -> Encoder:
    """Return the encoder before it is fitted; its `fitted(texts)` returns the one to use.

    >>> encoder = tfidf(dimensions=2).fitted(["a cat sat", "a dog sat", "the cat ran", "the dog ran"])
    >>> encoder.encode(["a cat sat", "a dog sat"]).shape
    (2, 2)
    """

    def not_fitted(texts: Sequence[str]) -> Features:
        raise UserError('tfidf must be fitted to training texts first: encoder("tfidf").fitted(texts)')

    return Encoder("tfidf", "text", not_fitted, batch=512, fit=lambda texts: fit_tfidf(texts, dimensions).encoder())


@dataclass(frozen=True, eq=False)
class TfIdf:
    """The fitted parameters: vocabularies of w words and p character n-grams (pieces), weights and directions.

    Shapes: idf [w + p], components [dimensions, w + p].
    """

    words: tuple[str, ...]
    pieces: tuple[str, ...]
    idf: npt.NDArray[np.float32]
    components: npt.NDArray[np.float32]

    def encoder(self) -> Encoder:
        """Return the encoder with these parameters."""
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
            counts = hstack([vectorizer.transform(_cut(texts)) for vectorizer in vectorizers]).tocsr()
            return normalize(counts @ self.components.T.astype(np.float64)).astype(np.float32)  # type: ignore[no-any-return]

        identity = {"words": len(self.words), "pieces": len(self.pieces), "dimensions": len(self.components)}
        return Encoder("tfidf", "text", encode, batch=512, identity=identity, save=self.save, source=self)

    def save(self, folder: Path) -> None:
        """Write the vocabularies as JSON and the arrays as safetensors."""
        from safetensors.numpy import save_file

        words = {"words": self.words, "pieces": self.pieces}
        write_text(folder / VOCABULARY_FILE, json.dumps(words) + "\n")  # ASCII: a text may hold lone surrogates
        tensors = {"idf": self.idf, "components": np.ascontiguousarray(self.components)}
        write_atomically(folder / TENSORS_FILE, lambda beside: save_file(tensors, beside))

    @classmethod
    def load(cls, folder: Path) -> TfIdf:
        """Return the parameters saved in a folder; a UserError if the two files do not fit together."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            words = json.loads((folder / VOCABULARY_FILE).read_text(encoding="utf-8"))
            tensors = load_file(folder / TENSORS_FILE)
            vocabularies = (tuple(words["words"]), tuple(words["pieces"]))
            idf, components = tensors["idf"], tensors["components"]
        except FileNotFoundError as error:
            raise UserError(f"{folder}: {Path(error.filename or VOCABULARY_FILE).name} is missing") from None
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
            raise UserError(f"{folder}: {VOCABULARY_FILE} has {width} entries, which does not fit {TENSORS_FILE}")
        if not np.isfinite(idf).all() or not np.isfinite(components).all():
            raise UserError(f"{folder}: {TENSORS_FILE} contains values that are not finite")
        return cls(*vocabularies, idf, components)


def fit_tfidf(texts: Sequence[str], dimensions: int = _MAX_DIMENSIONS) -> TfIdf:
    """Return vocabularies, weights and directions learned from training texts; deterministic."""
    from scipy.sparse import hstack
    from sklearn.decomposition import TruncatedSVD

    long = [row for row, text in enumerate(texts) if len(text) > _MAX_LENGTH]
    if long:
        log.warning("row %d has a text of %d characters (%d rows are as long): TF-IDF reads the first %d of each",
                    long[0], len(texts[long[0]]), len(long), _MAX_LENGTH)  # fmt: skip
    texts = _cut(texts)
    blocks, vocabularies, idf = [], {}, []
    for kind in _TERM_KINDS:
        vectorizer = _vectorizer(kind, min_df=2 if len(texts) >= 50 else 1, max_features=_MAX_TERMS)
        try:
            blocks.append(vectorizer.fit_transform(texts))
        except ValueError:  # no term occurs often enough
            vocabularies[kind] = ()
            continue
        vocabularies[kind] = tuple(vectorizer.get_feature_names_out().tolist())
        idf.append(vectorizer.idf_)
    if not blocks:
        raise UserError(f"no word occurs often enough in {len(texts)} texts to learn from; are they empty?")
    counts = hstack(blocks).tocsr()
    dimensions = min(dimensions, max(_MIN_DIMENSIONS, len(texts) // _ROWS_PER_DIMENSION), min(counts.shape) - 1)
    if dimensions < 1:
        raise UserError("expected at least two texts and two different words in them")
    svd = TruncatedSVD(dimensions, random_state=0).fit(counts)
    components = (_rotation(dimensions) @ svd.components_).astype(np.float32)
    return TfIdf(vocabularies["words"], vocabularies["pieces"], np.concatenate(idf).astype(np.float32), components)


def _cut(texts: Sequence[str]) -> list[str]:
    return [text[:_MAX_LENGTH] for text in texts]


def _rotation(dimensions: int) -> npt.NDArray[np.float64]:
    """Return a fixed random orthogonal matrix [d, d].

    The directions of an SVD are sorted by variance. Features are standardized before training, which would give the
    last directions, mostly noise, as much weight as the first. After a random rotation all directions have similar
    variance, as the features of a network have, and distances are unchanged.
    """
    square = seeds.generator(0, "tfidf/rotation").standard_normal((dimensions, dimensions))
    return np.linalg.qr(square).Q


def _vectorizer(kind: str, **options: Any) -> Any:
    from sklearn.feature_extraction.text import (
        TfidfVectorizer,  # here, because importing scikit-learn takes a second or two
    )

    return TfidfVectorizer(sublinear_tf=True, **_TERM_KINDS[kind], **options)
