"""What every network of the library promises."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pars.errors import UserError
from pars.models import MLP, Linear, ModelConfig, SmallCNN, build_model
from pars.models.fast_cnn import Whitening

Name = Literal["auto", "preact_resnet18", "small_cnn", "fast_cnn", "mlp", "linear"]

CASES: list[tuple[Name, tuple[int, ...]]] = [
    ("preact_resnet18", (3, 32, 32)),
    ("preact_resnet18", (1, 28, 28)),
    ("small_cnn", (3, 32, 32)),
    ("small_cnn", (1, 28, 28)),
    ("small_cnn", (1, 8, 8)),
    ("small_cnn", (3, 20, 33)),
    ("fast_cnn", (3, 32, 32)),
    ("fast_cnn", (1, 28, 28)),
    ("fast_cnn", (1, 8, 8)),
    ("fast_cnn", (3, 20, 33)),
    ("mlp", (1280,)),
    ("mlp", (1, 8, 8)),
    ("linear", (17,)),
    ("linear", (3, 4, 5)),
]


def config_of(name: Name) -> ModelConfig:
    return ModelConfig(name=name, width=8 if name == "preact_resnet18" else None)


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_shapes_and_every_parameter_gets_a_gradient(name: Name, shape: tuple[int, ...]) -> None:
    net = build_model(config_of(name), shape, 7, seed=0)
    x = torch.randn(6, *shape)
    features = net.features(x)
    assert features.shape == (6, net.head.in_features)
    logits = net(x)
    assert logits.shape == (6, 7)
    gradients = torch.autograd.grad(F.cross_entropy(logits, torch.arange(6)), list(net.parameters()))
    names = [name for name, _ in net.named_parameters()]
    without = [name for name, gradient in zip(names, gradients, strict=True) if not gradient.abs().sum() > 0]
    assert without == []


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_logits_are_the_head_of_the_features(name: Name, shape: tuple[int, ...]) -> None:
    net = build_model(config_of(name), shape, 7, seed=0).eval()
    x = torch.randn(3, *shape)
    linear = net.features(x) @ net.head.weight.T
    torch.testing.assert_close(net(x), linear / 9 if net.head.bias is None else linear + net.head.bias)
    assert torch.equal(net(x), net.head(net.features(x)))  # what methods that use features compute


@pytest.mark.parametrize("name", ["preact_resnet18", "small_cnn", "fast_cnn", "mlp", "linear"])
def test_initial_weights_depend_on_the_seed_alone(name: Name) -> None:
    torch.manual_seed(1)
    first = build_model(config_of(name), (3, 32, 32), 10, seed=3).state_dict()
    torch.manual_seed(2)
    again = build_model(config_of(name), (3, 32, 32), 10, seed=3).state_dict()
    other = build_model(config_of(name), (3, 32, 32), 10, seed=4).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_building_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    build_model(ModelConfig(), (3, 32, 32), 10, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_auto_is_small_cnn_for_images_and_mlp_for_vectors() -> None:
    assert isinstance(build_model(ModelConfig(), (3, 32, 32), 10, seed=0), SmallCNN)
    assert isinstance(build_model(ModelConfig(), (64,), 10, seed=0), MLP)


def test_convolutions_come_channels_last() -> None:
    names: tuple[tuple[Name, int], ...] = (("preact_resnet18", 16), ("small_cnn", 8), ("fast_cnn", 8))
    for name, width in names:
        for module in build_model(ModelConfig(name=name, width=width), (3, 32, 32), 10, seed=0).modules():
            if isinstance(module, (nn.Conv2d, Whitening)):
                assert module.weight.is_contiguous(memory_format=torch.channels_last)


def test_a_very_narrow_preact_resnet_trains_without_crashing_onednn() -> None:
    net = build_model(ModelConfig(name="preact_resnet18", width=4), (3, 16, 16), 10, seed=0)
    net(torch.randn(4, 3, 16, 16)).sum().backward()  # aborted the process in channels_last
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_small_cnn_keeps_four_by_four_positions_of_a_digit() -> None:
    maps = SmallCNN((1, 8, 8), 10).blocks(torch.zeros(2, 1, 8, 8))
    assert maps.shape == (2, 128, 4, 4)


def test_mlp_options() -> None:
    net = MLP((5,), 3, hidden=(8, 6), batch_norm=True, dropout=0.5)
    kinds = [type(layer).__name__ for layer in net.body]
    assert kinds == ["Linear", "BatchNorm1d", "ReLU", "Dropout"] * 2
    assert not any(isinstance(m, nn.Dropout) for m in MLP((5,), 3).modules())


def test_linear_features_are_the_input_itself() -> None:
    x = torch.randn(4, 2, 3)
    assert torch.equal(Linear((2, 3), 5).features(x), x.reshape(4, 6))


@pytest.mark.parametrize(
    ("config", "shape", "n_classes", "text"),
    [
        (ModelConfig(name="preact_resnet18"), (1280,), 10, r"preact_resnet18 needs images .* shape \[1280\]; use mlp"),
        (ModelConfig(name="small_cnn"), (64,), 10, "small_cnn needs images"),
        (ModelConfig(name="fast_cnn"), (3, 7, 9), 10, "fast_cnn needs images of at least 8×8 pixels, got 7×9"),
        (ModelConfig(name="small_cnn"), (3, 1, 1), 10, "at least 4×4 pixels, got 1×1"),
        (ModelConfig(name="preact_resnet18"), (3, 1, 1), 10, "at least 8×8 pixels, got 1×1"),
        (ModelConfig(), (64,), 1, "at least 2 classes, got 1"),
        (ModelConfig(), (0,), 2, "at least one value"),
        (ModelConfig(width=0), (3, 32, 32), 10, "model.width must be at least 1, got 0"),
        (ModelConfig(hidden=(8, 0)), (64,), 10, r"model.hidden .* got \[8, 0\]"),
        (ModelConfig(dropout=1.0), (64,), 10, "model.dropout"),
    ],
)
def test_what_cannot_be_built_is_said(config: ModelConfig, shape: tuple[int, ...], n_classes: int, text: str) -> None:
    with pytest.raises(UserError, match=text):
        build_model(config, shape, n_classes, seed=0)


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        (ModelConfig(name="small_cnn", width=10**6), (1, 8, 8)),
        (ModelConfig(name="preact_resnet18", width=10**18), (3, 32, 32)),
        (ModelConfig(name="mlp", hidden=(10**9,)), (64,)),
        (ModelConfig(name="mlp", hidden=(10**5, 10**5)), (64,)),
        (ModelConfig(name="mlp", hidden=(10**30,)), (64,)),
    ],
)
def test_a_network_that_fits_no_memory_is_refused_without_trying(config: ModelConfig, shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"model.width .* and model.hidden .* parameters, expected at most 1e\+09"):
        build_model(config, shape, 10, seed=0)
