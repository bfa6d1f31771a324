"""Image networks of the timm library: `timm:NAME`, or `timm:NAME@FILE` with weights from a file."""

from __future__ import annotations

from typing import Any

import torch

from pars.encode.encoder import Encoder, needed, weights_checksum
from pars.encode.images import IMAGENET_MEAN, IMAGENET_STD, normalized, with_network
from pars.errors import UserError
from pars.files import expanded

INSTALL = "pip install 'pars-lnl[vision]'"


def timm_model(name: str, size: int | None = None) -> Encoder:
    """The network without its classifier; resized and normalized as its publisher did."""
    timm = needed("timm", f"the encoder timm:{name}", INSTALL)
    model, _, file = name.partition("@")
    options: dict[str, Any] = {"pretrained": True}
    if file:
        path = expanded(file)
        if path.suffix != ".safetensors":
            raise UserError(f"timm:{name}: weights are read from .safetensors files only, which cannot run anything")
        if not path.is_file():
            raise UserError(f"timm:{name}: there is no file {path}")
        options["pretrained_cfg_overlay"] = {"file": str(path)}  # in place of its own; the classifier is dropped
    try:
        net = timm.create_model(model, num_classes=0, **options)
    except Exception as error:  # an unknown name, no network, a file that does not fit: timm raises anything
        raise UserError(
            f"timm:{name} cannot be built ({' '.join(str(error).split())[:300]}); a name of timm.list_models(), "
            "and a connection to fetch its weights?"
        ) from error
    about = getattr(net, "pretrained_cfg", None) or {}
    side = size or int(about.get("input_size", (3, 224, 224))[-1])
    mean, std = about.get("mean", IMAGENET_MEAN), about.get("std", IMAGENET_STD)
    net = net.eval().to(memory_format=torch.channels_last)
    identity = {"weights_blake2b": weights_checksum(net), "timm": timm.__version__, "torch": torch.__version__}
    encode = with_network(net, lambda images: normalized(images, side, mean, std))
    return Encoder(f"timm:{name}", "image", encode, size=side, identity=identity)
