"""Networks of the transformers library for texts and images: `hf:NAME`, a name on the hub or a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pars.encode.encoder import Encoder, Features, Kind, weights_checksum
from pars.encode.image_encoders import encode_with, normalize_images
from pars.machine import import_optional
from pars.models.pretrained import HFImages, hf_image_preprocessing, hf_model, hf_source, pooled

_INSTALL = "pip install 'pars-lnl[hf]'"
_MAX_TOKENS = 256  # of a text; the rest is ignored


def hugging_face(name: str, kind: Kind | None = None, size: int | None = None) -> Encoder:
    """Return an encoder from a model's output: of texts the mean over tokens, of images the pooled output.

    The model's pooling file takes precedence for texts. Images without a pooled output get the mean over positions.
    kind: for a model that reads both, such as CLIP. Code that comes with a model is never run.
    """
    transformers = import_optional("transformers", f"the encoder hf:{name}", _INSTALL)
    source, model = hf_source(name), hf_model(name)
    both = hasattr(model, "get_image_features") and hasattr(model, "get_text_features")
    reads: Kind = kind if both and kind is not None else "image" if model.main_input_name == "pixel_values" else "text"
    identity = {
        "weights_blake2b": weights_checksum(model),
        "transformers": transformers.__version__,
        "torch": torch.__version__,
    }
    if reads == "text":
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        encode = _text_encode(model, tokenizer, cls=_uses_first_token(Path(source)), both=both)
        return Encoder(f"hf:{source}", "text", encode, identity=identity)
    mean, std, side, _ = hf_image_preprocessing(name, model, size)
    function = encode_with(HFImages(model), lambda images: normalize_images(images, side, mean, std).contiguous())
    return Encoder(f"hf:{source}", "image", function, size=side, identity=identity)


def _text_encode(model: Any, tokenizer: Any, *, cls: bool, both: bool) -> Any:
    positions = getattr(model.config, "max_position_embeddings", None) or _MAX_TOKENS
    longest = min(_MAX_TOKENS, int(getattr(tokenizer, "model_max_length", _MAX_TOKENS)), positions)

    @torch.inference_mode()
    def encode(texts: Sequence[str]) -> Features:
        tokens = tokenizer(list(texts), padding=True, truncation=True, max_length=longest, return_tensors="pt")
        if both:
            found = model.get_text_features(**tokens)
            return (found if isinstance(found, Tensor) else pooled(found)).float().numpy()
        hidden = model(**tokens).last_hidden_state.float()
        return (hidden[:, 0] if cls else _mean_over_tokens(hidden, tokens["attention_mask"])).numpy()

    return encode


def _mean_over_tokens(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over the tokens of a mask. Shapes: hidden [n, t, d], mask [n, t] -> [n, d].

    >>> _mean_over_tokens(torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[1, 1, 0]]))
    tensor([[2.]])
    """
    weight = mask[:, :, None].to(hidden.dtype)
    return (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp_min(1)


def _uses_first_token(folder: Path) -> bool:
    """Whether the pooling file of a sentence-transformers model selects the first token."""
    try:
        pooling = json.loads((folder / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
        return bool(pooling.get("pooling_mode_cls_token")) and not pooling.get("pooling_mode_mean_tokens")
    except (OSError, ValueError, AttributeError):
        return False
