"""Encoders by name; saving an encoder in a folder and loading it: JSON and safetensors, no code."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pars.encode.encoder import Encoder, Features, Kind
from pars.errors import UserError, one_line
from pars.files import expanded, write_text

NAMES = {
    "tfidf": "texts: TF-IDF of words and character n-grams, then a truncated SVD; fitted to your texts, no download",
    "minilm": "texts: all-MiniLM-L6-v2 from packages, by onnxruntime (English)",
    "lite0": "images: EfficientNet-lite0 from packages",
    "pixels": "images: the pixels themselves, for small ones",
    "timm:NAME": "images: a network of the timm library (timm:NAME@FILE.safetensors: with weights from a file)",
    "hf:NAME": "texts or images: a network of the transformers library, on the hub or in a folder",
    "FILE.onnx": "texts (tokenizer.json beside it) or images: an ONNX network",
    "python:MODULE:FUNCTION": "a function of your own: rows to an array [n, d]",
    "FOLDER": "an encoder that `pars encode` saved",
}
ENCODER_FILE = "encoder.json"
"""The file that makes a folder a saved encoder: its name, kind, size and identity."""
_LARGEST_SIDE = 4096  # pixels; a larger value is a typing error
_READABLE = {"text": "texts", "image": "images"}


def encoder(name: str | Callable[[Any], Any], *, kind: Kind | None = None, size: int | None = None) -> Encoder:
    """Return the encoder of this name (see `NAMES`), or one that calls a function.

    name: or a function from rows (texts, or uint8 images [n, C, H, W]) to an array [n, d].
    kind: of the rows, for models that read both and for functions.
    size: side in pixels to which images are resized; by default the encoder's own.

    >>> encoder("pixels").kind
    'image'
    >>> encoder(lambda texts: [[len(text)] for text in texts], kind="text").encode(["a", "bcd"]).tolist()
    [[1.0], [3.0]]
    """
    if size is not None and not 1 <= size <= _LARGEST_SIDE:
        raise UserError(f"size is {size}, expected a side of 1 to {_LARGEST_SIDE} pixels")
    found = _build(name, kind, size)
    if kind is not None and found.kind != kind:
        raise UserError(f"the encoder {found.name} reads {_READABLE[found.kind]}, but the rows are {_READABLE[kind]}")
    return found


def _build(name: str | Callable[[Any], Any], kind: Kind | None, size: int | None) -> Encoder:
    # Imported where needed, because each encoder imports libraries that the others do not need.
    if callable(name):
        made = _from_function(name, getattr(name, "__name__", "function"), kind, size)
        return replace(made, saveable=False, source=name)
    prefix, _, rest = name.partition(":")
    if prefix == "timm" and rest:
        from pars.encode.image_encoders import timm_model

        return timm_model(rest, size)
    if prefix == "hf" and rest:
        from pars.encode.hugging_face import hugging_face

        return hugging_face(rest, kind, size)
    if prefix == "python" and rest:
        return _from_function(_import_function(rest), name, kind, size)
    match name:
        case "tfidf":
            from pars.encode.tfidf import tfidf

            return tfidf()
        case "minilm":
            from pars.encode.onnx_file import minilm

            return minilm()
        case "lite0":
            from pars.encode.image_encoders import lite0

            return lite0(size)
        case "pixels":
            from pars.encode.image_encoders import pixels

            return pixels()
    return _from_path(expanded(name), name, size)


def _from_path(path: Path, name: str, size: int | None) -> Encoder:
    if path.suffix == ".onnx" and path.is_file():
        from pars.encode.onnx_file import onnx_file

        return onnx_file(path.resolve(), size=size)
    if path.is_dir():
        return load_encoder(path)
    raise UserError(f"unknown encoder {name!r}; choose from: {', '.join(NAMES)}")


def _import_function(place: str) -> Callable[[Any], Any]:
    module, _, function = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except Exception as error:  # a module may raise anything when it is imported
        raise UserError(
            f"python:{place}: {one_line(error)}; expected python:MODULE:FUNCTION with a module on PYTHONPATH"
        ) from error
    if not callable(found):
        raise UserError(f"python:{place} is a {type(found).__name__}, expected a function")
    return found  # type: ignore[no-any-return]


def _from_function(function: Callable[[Any], Any], name: str, kind: Kind | None, size: int | None) -> Encoder:
    if kind is None:
        raise UserError(f"the encoder {name} needs kind = 'text' or 'image'")

    def encode(rows: Any) -> Features:
        try:
            found = np.asarray(function(rows), dtype=np.float32)
        except Exception as error:  # whatever a function of the user's raises
            what = "texts" if kind == "text" else f"images of shape {list(np.shape(rows))}"
            raise UserError(
                f"{name} failed on {len(rows)} {what}: {type(error).__name__}: {one_line(error)}; expected a function "
                f"that returns numbers [{len(rows)}, d]"
            ) from error
        if found.ndim != 2 or len(found) != len(rows):
            raise UserError(
                f"{name} returned shape {list(found.shape)} for {len(rows)} rows, expected [{len(rows)}, d]"
            )
        return found

    return Encoder(name, kind, encode, size=size or 224)


def save_encoder(encoder: Encoder, folder: Path) -> None:
    """Save an encoder in a folder, which is created."""
    if not encoder.saveable:
        raise UserError(
            f"the encoder {encoder.name} is a function that cannot be loaded by name; "
            "put it into a module and use python:MODULE:FUNCTION"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if encoder.save is not None:
        encoder.save(folder)
    content = json.dumps(describe_encoder(encoder), indent=1) + "\n"
    write_text(folder / ENCODER_FILE, content)  # last: this file makes the folder a saved encoder


def describe_encoder(encoder: Encoder) -> dict[str, object]:
    """Return everything that the features depend on, as JSON values."""
    return {"name": encoder.name, "kind": encoder.kind, "size": encoder.size, "identity": dict(encoder.identity)}


def load_encoder(folder: Path) -> Encoder:
    """Return the encoder saved in a folder; a UserError if its weights have changed since."""
    from pars.encode.tfidf import TfIdf

    saved, file = read_description(folder), folder / ENCODER_FILE
    name = saved["name"]
    if name.startswith("python:"):
        raise UserError(
            f"{file} names a function, {name}; saved files may not run code, so pass it yourself: --encoder {name}"
        )
    if name == "tfidf":
        return TfIdf.load(folder).encoder()
    if (
        name not in ("minilm", "lite0", "pixels")
        and not name.startswith(("timm:", "hf:"))
        and not name.endswith(".onnx")
    ):
        raise UserError(f"{file} is damaged: {name!r} is not an encoder")
    found = encoder(name, kind=saved["kind"], size=saved["size"] or None)
    _check_identity(found, saved["identity"], str(folder))
    return found


def read_description(folder: Path) -> dict[str, Any]:
    """Return name, kind, size and identity of the encoder saved in a folder, checked."""
    file = folder / ENCODER_FILE
    try:
        saved = json.loads(file.read_text(encoding="utf-8"))
        name, kind, size = saved["name"], saved["kind"], saved["size"]
        if not isinstance(name, str) or kind not in ("text", "image") or type(size) is not int or size < 0:
            raise ValueError(f"name {name!r}, kind {kind!r}, size {size!r}")
        return {"name": name, "kind": kind, "size": size, "identity": dict(saved["identity"])}
    except FileNotFoundError:
        raise UserError(f"{folder} contains no saved encoder: {file} is missing") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{file} is damaged: {error!r}") from None


def unpickle_encoder(source: Any, kind: Kind, size: int, identity: dict[str, object]) -> Encoder:
    """Return a pickled encoder; a UserError if its weights have changed since."""
    from pars.encode.tfidf import TfIdf

    if isinstance(source, TfIdf):
        return source.encoder()
    found = encoder(source, kind=kind, size=size or None)
    _check_identity(found, identity, "the pickled encoder")
    return found


def _check_identity(encoder: Encoder, identity: dict[str, object], where: str) -> None:
    """Raise a UserError if a checksum differs; library versions may differ."""
    for key, value in encoder.identity.items():
        if key.endswith("_blake2b") and identity.get(key) != value:
            raise UserError(
                f"{where}: the weights of {encoder.name} have changed ({key} {value}, saved {identity.get(key)}); "
                "its features would differ from those of training"
            )
