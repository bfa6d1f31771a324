"""Networks of the transformers library for texts and images: `hf:NAME`, a name on the hub or a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pars.encode.encoder import Encoder, Features, Kind, import_optional, weights_checksum
from pars.encode.image_encoders import IMAGENET_MEAN, IMAGENET_STD, encode_with, normalize_images
from pars.errors import UserError
from pars.files import expanded

_INSTALL = "pip install 'pars-lnl[hf]'"
_MAX_TOKENS = 256  # of a text; the rest is ignored


def hugging_face(name: str, kind: Kind | None = None, size: int | None = None) -> Encoder:
    """Return an encoder from a model's output: of texts the mean over tokens, of images the pooled output.

    The model's pooling file takes precedence for texts. Images without a pooled output get the mean over positions.
    kind: for a model that reads both, such as CLIP. Code that comes with a model is never run.
    """
    transformers = import_optional("transformers", f"the encoder hf:{name}", _INSTALL)
    folder = expanded(name)
    source = str(folder.resolve()) if folder.is_dir() else name
    transformers.utils.logging.disable_progress_bar()
    try:
        model = transformers.AutoModel.from_pretrained(source, trust_remote_code=False).eval()
    except Exception as error:  # an unknown name, no connection, a damaged file: the library raises anything
        raise UserError(
            f"hf:{name} cannot be loaded ({' '.join(str(error).split())[:300]}); expected a name on the hub and "
            "a connection to it, or a folder with config.json and model.safetensors"
        ) from error
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
    about = _image_preprocessing(source)
    config = getattr(model.config, "vision_config", model.config)
    side = size or _image_side(about) or int(getattr(config, "image_size", None) or 224)
    mean, std = about.get("image_mean") or IMAGENET_MEAN, about.get("image_std") or IMAGENET_STD

    def network(pixels: Tensor) -> Tensor:
        if both:
            found = model.get_image_features(pixel_values=pixels)
            return found if isinstance(found, Tensor) else _pooled(found)
        return _pooled(model(pixel_values=pixels))

    function = encode_with(network, lambda images: normalize_images(images, side, mean, std).contiguous())
    return Encoder(f"hf:{source}", "image", function, size=side, identity=identity)


def _pooled(output: Any) -> Tensor:
    pooled = getattr(output, "pooler_output", None)
    if pooled is not None:
        return torch.as_tensor(pooled)
    hidden = torch.as_tensor(output.last_hidden_state)  # tokens [n, t, d], or positions [n, d, h, w]
    return hidden.mean(dim=1) if hidden.ndim == 3 else hidden


def _text_encode(model: Any, tokenizer: Any, *, cls: bool, both: bool) -> Any:
    positions = getattr(model.config, "max_position_embeddings", None) or _MAX_TOKENS
    longest = min(_MAX_TOKENS, int(getattr(tokenizer, "model_max_length", _MAX_TOKENS)), positions)

    @torch.inference_mode()
    def encode(texts: Sequence[str]) -> Features:
        tokens = tokenizer(list(texts), padding=True, truncation=True, max_length=longest, return_tensors="pt")
        if both:
            found = model.get_text_features(**tokens)
            return (found if isinstance(found, Tensor) else _pooled(found)).float().numpy()
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


def _image_preprocessing(source: str) -> dict[str, Any]:
    """Return the model's preprocessing values; its own code is not used, because it needs torchvision."""
    transformers = import_optional("transformers", f"the encoder hf:{source}", _INSTALL)
    try:
        about, _ = transformers.ImageProcessingMixin.get_image_processor_dict(source)
        return dict(about)
    except (OSError, ValueError):
        return {}


def _image_side(about: dict[str, Any]) -> int | None:
    for key in ("crop_size", "size"):
        value = about.get(key)
        if isinstance(value, int):
            return value
        if isinstance(value, dict) and (found := value.get("height") or value.get("shortest_edge")):
            return int(found)
    return None
