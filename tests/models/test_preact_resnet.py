"""The noisy-label papers' network, against a functional re-implementation and a parameter count by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pars.models import PreActResNet18


def count_by_hand(width: int, channels: int, n_classes: int) -> int:
    stages = [(width, width), (width, 2 * width), (2 * width, 4 * width), (4 * width, 8 * width)]
    total = channels * width * 9 + 2 * width  # stem convolution and its BatchNorm (scale, shift)
    for number, (c_in, c_out) in enumerate(stages):
        total += 2 * c_in + 9 * c_in * c_out + 2 * c_out + 9 * c_out * c_out  # first block
        total += c_in * c_out if number > 0 else 0  # its 1×1 shortcut
        total += 2 * c_out + 9 * c_out * c_out + 2 * c_out + 9 * c_out * c_out  # second block
    return total + 8 * width * n_classes + n_classes


@pytest.mark.parametrize(("width", "channels", "n_classes"), [(64, 3, 10), (64, 3, 100), (16, 1, 10)])
def test_parameter_count(width: int, channels: int, n_classes: int) -> None:
    net = PreActResNet18((channels, 32, 32), n_classes, width=width)
    assert sum(p.numel() for p in net.parameters()) == count_by_hand(width, channels, n_classes)
    if (width, n_classes) == (64, 10):
        assert 11_170_000 <= count_by_hand(width, channels, n_classes) < 11_180_000


def naive_forward(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """The paper repositories' forward pass on the network's own weights, in training mode."""

    def norm_relu(h: Tensor, name: str) -> Tensor:
        mean = h.mean((0, 2, 3), keepdim=True)
        var = ((h - mean) ** 2).mean((0, 2, 3), keepdim=True)
        scale, shift = weights[f"{name}.weight"][None, :, None, None], weights[f"{name}.bias"][None, :, None, None]
        return ((h - mean) / (var + 1e-5).sqrt() * scale + shift).clamp_min(0)

    h = norm_relu(F.conv2d(x, weights["stem.0.weight"], padding=1), "stem.1")
    for block, stride in enumerate([1, 1, 2, 1, 2, 1, 2, 1]):
        name = f"blocks.{block}"
        activated = norm_relu(h, f"{name}.bn1")
        carried = F.conv2d(activated, weights[f"{name}.shortcut.weight"], stride=stride) if stride == 2 else h
        inner = F.conv2d(activated, weights[f"{name}.conv1.weight"], stride=stride, padding=1)
        h = F.conv2d(norm_relu(inner, f"{name}.bn2"), weights[f"{name}.conv2.weight"], padding=1) + carried
    pooled = F.avg_pool2d(h, 4).flatten(1)
    return pooled @ weights["head.weight"].T + weights["head.bias"]


def test_forward_equals_a_naive_functional_version() -> None:
    torch.manual_seed(0)
    net = PreActResNet18((3, 32, 32), 10, width=4).double()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):  # scale 1 and shift 0 would hide a missing BatchNorm
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    x = torch.randn(5, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(net(x), naive_forward(dict(net.named_parameters()), x), rtol=1e-10, atol=1e-12)


def test_features_are_not_rectified_there_is_no_final_relu() -> None:
    torch.manual_seed(0)
    net = PreActResNet18((3, 32, 32), 10, width=8)
    assert net.features(torch.randn(8, 3, 32, 32)).min() < 0


def test_convolutions_have_no_bias_and_only_three_shortcuts_exist() -> None:
    convs = [(n, m) for n, m in PreActResNet18((3, 32, 32), 10, width=4).named_modules() if isinstance(m, nn.Conv2d)]
    assert all(m.bias is None for _, m in convs)
    assert [n for n, _ in convs if "shortcut" in n] == [f"blocks.{i}.shortcut" for i in (2, 4, 6)]
