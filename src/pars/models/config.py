"""The choice of a network by name, and building it without changing torch's global random state."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pars.errors import UserError
from pars.files import expanded
from pars.lazy import torch
from pars.seeds import torch_seed

if TYPE_CHECKING:
    from pars.models.backbone import Backbone

OWN = ("auto", "preact_resnet18", "small_cnn", "fast_cnn", "mlp", "linear")
"""Names of our own networks; all others come from libraries."""
_MOST_PARAMETERS = 10**9  # with gradient, momentum and average 16 GB in training
_LARGEST_SIDE = 4096  # pixels; a larger value is a typing error
_NO_FILE = ("pretrained", "none")  # values of `weights` that name no file


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network."""

    name: str = "auto"
    """auto (small_cnn for images, mlp for feature vectors), preact_resnet18, small_cnn, fast_cnn, mlp, linear; or a
    pre-trained network: of images timm:NAME, hf:NAME (on the hub, or a folder), lite0; of texts hf:NAME."""
    weights: str = "pretrained"
    """timm:, hf:, lite0: pretrained (as the library has them), none (random), or a file: .safetensors or a state dict
    of torch. A file also serves the other networks, which start from random weights by default."""
    frozen: bool = False
    """timm:, hf:, lite0: train the head only."""
    size: int | None = None
    """timm:, hf:, lite0: side in pixels to which the network's inputs are resized; by default they are left as they
    are, unless the network reads one size only. hf: and texts: tokens of a text at most, by default 128."""
    normalize: Literal["network", "data"] = "network"
    """timm:, hf:, lite0: with the mean and deviation of the images of pre-training, or of the training images."""
    width: int | None = None
    """Channels of the first stage of a convolutional network; by default 64 (preact_resnet18) or 32 (the others)."""
    whitening: Literal["both", "one"] = "one"
    """fast_cnn: filters of the whitening layer: every principal axis and its negative, or with one sign only."""
    convolution: Literal["direct", "winograd"] = "direct"
    """fast_cnn: winograd needs 0.6 to 0.8 of the time on a CPU, is equal up to rounding, and needs a C++ compiler."""
    hidden: tuple[int, ...] = (256,)
    """mlp: sizes of the hidden layers."""
    batch_norm: bool = False
    """mlp: BatchNorm after each hidden layer."""
    dropout: float = 0.0
    """mlp: dropout after each hidden layer."""
    matmul: Literal["torch", "onednn"] = "torch"
    """mlp: what multiplies in hidden layers on a CPU. onednn needs half the time on AMD's, is equal up to rounding."""


def build_model(config: ModelConfig, input_shape: tuple[int, ...], n_classes: int, *, seed: int) -> Backbone:
    """Return the network; its initial weights depend on the seed alone (stream "init").

    input_shape: of one input, (C, H, W) or (d,). Convolutional networks are in channels_last memory format.

    >>> net = build_model(ModelConfig(), (1, 8, 8), 10, seed=0)
    >>> type(net).__name__, net.head.out_features
    ('SmallCNN', 10)
    """
    _check_config(config, input_shape, n_classes)
    # Weights are always drawn on the CPU, so the same seed gives the same network on every device.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # Not torch.manual_seed: it would reseed CUDA as well, which is not forked here.
        torch.default_generator.manual_seed(torch_seed(seed, "init"))
        net = _construct(config, input_shape, n_classes)
        if config.weights not in _NO_FILE and config.name in OWN:
            from pars.models.pretrained import load_weights

            load_weights(net, expanded(config.weights), f"model {config.name}")
    from pars.models import FastCNN, PreActResNet18, SmallCNN

    # oneDNN corrupts memory in the backward of a channels_last 1×1 stride-2 convolution with fewer input channels than
    # its vector block of 8 or 16 (uxlfoundation/oneDNN#6035); narrow networks keep the plain layout.
    if isinstance(net, (SmallCNN, FastCNN)) or (isinstance(net, PreActResNet18) and (config.width or 64) >= 16):
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return net


def _check_config(config: ModelConfig, input_shape: tuple[int, ...], n_classes: int) -> None:
    if n_classes < 2:
        raise UserError(f"a classifier needs at least 2 classes, got {n_classes}")
    if not input_shape or min(input_shape) < 1:
        raise UserError(f"an input must have at least one value, got shape {list(input_shape)}")
    if config.width is not None and config.width < 1:
        raise UserError(f"model.width must be at least 1, got {config.width}")
    if any(size < 1 for size in config.hidden):
        raise UserError(f"model.hidden must contain sizes of at least 1, got {list(config.hidden)}")
    if not 0 <= config.dropout < 1:
        raise UserError(f"model.dropout must be in [0, 1), got {config.dropout}")
    if config.name not in OWN:
        _check_named(config)
        return
    try:
        with torch.device("meta"):  # which allocates no memory
            count = sum(p.numel() for p in _construct(config, input_shape, n_classes).parameters())
    except (RuntimeError, TypeError, OverflowError):  # a size, or a product of sizes, beyond 64 bits
        count = None
    if count is None or count > _MOST_PARAMETERS:
        settings = f"model.width {config.width} and model.hidden {list(config.hidden)}"
        found = "too many to count" if count is None else f"{count:.3g}"
        raise UserError(f"{settings} give {found} parameters, expected at most {_MOST_PARAMETERS:.0e}")


def _check_named(config: ModelConfig) -> None:
    prefix, _, rest = config.name.partition(":")
    if config.name != "lite0" and not (prefix in ("timm", "hf") and rest):
        close = difflib.get_close_matches(config.name, [*OWN, "lite0"], n=1)
        meant = f"did you mean {close[0]!r}? Expected" if close else "expected"
        raise UserError(f"model.name is {config.name!r}; {meant} {', '.join(OWN)}, timm:NAME, hf:NAME or lite0")
    if config.size is not None and not 1 <= config.size <= _LARGEST_SIDE:
        raise UserError(f"model.size is {config.size}, expected a side of 1 to {_LARGEST_SIDE} pixels")


def _construct(config: ModelConfig, input_shape: tuple[int, ...], n_classes: int) -> Backbone:
    # Imported here: networks are subclasses of torch.nn.Module, and configurations are read without torch.
    from pars.models import MLP, FastCNN, Linear, PreActResNet18, SmallCNN

    name = config.name
    if name not in OWN:
        if len(input_shape) == 1:
            from pars.models.text_network import text_network

            return text_network(name, config.weights, input_shape, n_classes, frozen=config.frozen)
        from pars.models.named import named_network

        return named_network(name, config.weights, input_shape, n_classes, size=config.size, frozen=config.frozen)
    if name == "auto":
        name = "small_cnn" if len(input_shape) == 3 else "mlp"
    match name:
        case "preact_resnet18":
            return PreActResNet18(input_shape, n_classes, width=config.width or 64)
        case "small_cnn":
            return SmallCNN(input_shape, n_classes, width=config.width or 32)
        case "fast_cnn":
            return FastCNN(
                input_shape,
                n_classes,
                width=config.width or 32,
                signs=config.whitening,
                convolution=config.convolution,
            )
        case "mlp":
            return MLP(
                input_shape,
                n_classes,
                hidden=config.hidden,
                batch_norm=config.batch_norm,
                dropout=config.dropout,
                matmul=config.matmul,
            )
    assert name == "linear"
    return Linear(input_shape, n_classes)
