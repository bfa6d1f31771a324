"""Encoders by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pars.encode.encoder import Encoder, Features, Kind
from pars.errors import UserError
from pars.files import expanded

NAMES = {
    "tfidf": "texts: TF-IDF of words and pieces of words, then a truncated SVD; needs nothing, learns from your texts",
    "minilm": "texts: all-MiniLM-L6-v2 from packages, by onnxruntime (English)",
    "lite0": "images: EfficientNet-lite0 from packages",
    "pixels": "images: the pixels themselves, for small ones",
    "timm:NAME": "images: a network of the timm library (timm:NAME@FILE.safetensors: with weights from a file)",
    "hf:NAME": "texts or images: a network of the transformers library, on the hub or in a folder",
    "FILE.onnx": "texts (tokenizer.json beside it) or images: an ONNX network",
    "python:MODULE:FUNCTION": "a function of your own: rows to an array [n, d]",
    "FOLDER": "an encoder that `pars encode` saved",
}
LARGEST_SIDE = 4096  # pixels; more would be a slip


def encoder(name: str | Callable[[Any], Any], *, kind: Kind | None = None, size: int | None = None) -> Encoder:
    """The encoder of this name, or one made of a function from rows (texts, or uint8 images [n, C, H, W]) to [n, d].

    kind: what the rows are, for models and functions that do not say. size: side in pixels that images are brought to.

    >>> encoder("pixels").kind
    'image'
    >>> encoder(lambda texts: [[len(text)] for text in texts], kind="text").encode(["a", "bcd"]).tolist()
    [[1.0], [3.0]]
    """
    if size is not None and not 1 <= size <= LARGEST_SIDE:
        raise UserError(f"size is {size}, expected a side of 1 to {LARGEST_SIDE} pixels")
    found = _made(name, kind, size)
    if kind is not None and found.kind != kind:
        wanted = {"text": "texts", "image": "images"}
        raise UserError(f"the encoder {found.name} reads {wanted[found.kind]}, but the rows are {wanted[kind]}")
    return found


def _made(name: str | Callable[[Any], Any], kind: Kind | None, size: int | None) -> Encoder:
    # Imported where needed: each brings libraries that the others do without.
    if callable(name):
        made = _from_function(name, getattr(name, "__name__", "function"), kind, size)
        return replace(made, can_be_named=False, source=name)
    prefix, _, rest = name.partition(":")
    if prefix == "timm" and rest:
        from pars.encode.timm_model import timm_model

        return timm_model(rest, size)
    if prefix == "hf" and rest:
        from pars.encode.hugging_face import hugging_face

        return hugging_face(rest, kind, size)
    if prefix == "python" and rest:
        return _from_function(_imported(rest), name, kind, size)
    match name:
        case "tfidf":
            from pars.encode.tfidf import tfidf

            return tfidf()
        case "minilm":
            from pars.encode.onnx_file import minilm

            return minilm()
        case "lite0":
            from pars.encode.lite0 import SIDE, lite0

            return lite0(size or SIDE)
        case "pixels":
            from pars.encode.images import pixels

            return pixels()
    return _from_path(expanded(name), name, size)


def _from_path(path: Path, name: str, size: int | None) -> Encoder:
    if path.suffix == ".onnx" and path.is_file():
        from pars.encode.onnx_file import onnx_file

        return onnx_file(path.resolve(), size=size)
    if path.is_dir():
        from pars.encode.saved import load_encoder

        return load_encoder(path)
    raise UserError(f"unknown encoder {name!r}; there are: {', '.join(NAMES)}")


def _imported(place: str) -> Callable[[Any], Any]:
    module, _, function = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"python:{place}: {error}; expected python:MODULE:FUNCTION, to be found on PYTHONPATH"
        ) from error
    if not callable(found):
        raise UserError(f"python:{place} is a {type(found).__name__}, expected a function")
    return found  # type: ignore[no-any-return]


def _from_function(function: Callable[[Any], Any], name: str, kind: Kind | None, size: int | None) -> Encoder:
    if kind is None:
        raise UserError(f"{name} does not say what it encodes; expected kind = 'text' or 'image'")

    def encode(rows: Any) -> Features:
        found = np.asarray(function(rows), dtype=np.float32)
        if found.ndim != 2 or len(found) != len(rows):
            raise UserError(f"{name} made {list(found.shape)} of {len(rows)} rows, expected [{len(rows)}, d]")
        return found

    return Encoder(name, kind, encode, size=size or 224)
