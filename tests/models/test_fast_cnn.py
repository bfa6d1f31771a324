"""The network made for speed: its shape written out by hand, its cost, and what a run needs of it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pars.engine import network_cost
from pars.models import FastCNN, ModelConfig, build
from pars.models.whitening import Signs


def by_hand(w: dict[str, Tensor], x: Tensor, *, pools: int = 3) -> Tensor:
    """The whole network from its named weights, in evaluation mode, in float64."""
    w = {name: tensor.double() for name, tensor in w.items()}
    x = F.gelu(F.conv2d(x.double(), w["whitening.weight"], w["whitening.bias"]))
    layer = 1
    for block in range(3):
        for depth in range(2):
            x = F.conv2d(x, w[f"blocks.{layer}.weight"], padding=1)
            layer += 1
            if depth == 0 and block < pools:
                x = F.max_pool2d(x, 2)
                layer += 1
            mean, var = w[f"blocks.{layer}.running_mean"], w[f"blocks.{layer}.running_var"]
            x = F.gelu(F.batch_norm(x, mean, var, w[f"blocks.{layer}.weight"], w[f"blocks.{layer}.bias"]))
            layer += 2
    return x.flatten(2).max(dim=2).values @ w["head.weight"].T / 9


@pytest.mark.parametrize(("shape", "pools"), [((3, 32, 32), 3), ((1, 28, 28), 3), ((3, 16, 20), 2), ((1, 8, 8), 1)])
def test_it_is_what_it_says(shape: tuple[int, int, int], pools: int) -> None:
    net = build(ModelConfig(name="fast_cnn", width=8), shape, 7, seed=0)
    x = torch.randn(16, *shape)
    net.fit_statistics(x)
    net(x)  # moves BatchNorm's statistics away from 0 and 1
    net.eval()
    torch.testing.assert_close(net(x).double(), by_hand(net.state_dict(), x, pools=pools), rtol=1e-4, atol=1e-5)


def multiply_adds(w: int, filters: int) -> float:
    """Of a 32×32 color image: positions × inputs × outputs, layer by layer."""
    whitening, head = 31**2 * 12 * filters, 4 * w * 10
    first = 31**2 * 9 * filters * w + 15**2 * 9 * w * w
    second = 15**2 * 9 * w * 4 * w + 7**2 * 9 * (4 * w) ** 2
    third = (7**2 + 3**2) * 9 * (4 * w) ** 2
    return whitening + first + second + third + head


@pytest.mark.parametrize(
    ("width", "signs", "mflop"), [(32, "both", 66.1), (64, "both", 236.3), (32, "one", 59.2), (64, "one", 222.7)]
)
def test_its_cost_is_that_of_its_convolutions(width: int, signs: Signs, mflop: float) -> None:
    net = build(ModelConfig(name="fast_cnn", width=width, whitening=signs), (3, 32, 32), 10, seed=0)
    cost = network_cost(net, torch.zeros(2, 3, 32, 32))
    filters = {"both": 24, "one": 12}[signs]
    assert cost.forward == 2 * multiply_adds(width, filters)
    assert cost.forward / 1e6 == pytest.approx(mflop, abs=0.1)
    # Frozen filters have no gradient, nor has the input.
    assert cost.training == 3 * cost.forward - 2 * 2 * 31**2 * 12 * filters


def test_widths_are_w_4w_4w_and_32_is_the_default() -> None:
    net = build(ModelConfig(name="fast_cnn"), (3, 32, 32), 10, seed=0)
    assert isinstance(net, FastCNN)
    assert [m.out_channels for m in net.modules() if isinstance(m, nn.Conv2d)] == [32, 32, 128, 128, 128, 128]
    assert net.head.bias is None


def test_logits_are_scaled_as_asked() -> None:
    torch.manual_seed(0)
    net = FastCNN((3, 8, 8), 5, width=4, logit_scale=0.5).eval()
    x = torch.randn(3, 3, 8, 8)
    torch.testing.assert_close(net(x), 0.5 * net.features(x) @ net.head.weight.T)


def test_preparing_changes_the_whitening_only_and_keeps_its_layout() -> None:
    net = build(ModelConfig(name="fast_cnn", width=4), (3, 16, 16), 10, seed=0)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    net.fit_statistics(torch.randn(50, 3, 16, 16).cumsum(dim=3))
    changed = [name for name, tensor in net.state_dict().items() if not torch.equal(tensor, before[name])]
    assert changed == ["whitening.weight"]
    assert net.whitening.weight.is_contiguous(memory_format=torch.channels_last)  # type: ignore[operator, union-attr]
