"""Winograd convolutions against torch's own in float64, their cost, and what happens where they cannot be compiled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import cpp_extension

from pars.engine import network_cost
from pars.models import ModelConfig, build_model
from pars.models.fast_cnn import Convolution
from pars.models.winograd import WinogradConv2d, kernel

HAS_COMPILER = shutil.which(os.environ.get("CXX", "c++")) is not None
pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="no C++ compiler: Winograd convolutions are not tested")


def assert_near(found: Tensor, expected: Tensor) -> None:
    """Equal up to a small part of the largest value: Winograd's rounding errors are as large everywhere."""
    assert found.shape == expected.shape
    assert (found.double() - expected).abs().max() <= 3e-5 * expected.abs().max()


@pytest.mark.parametrize(
    ("n", "c_in", "c_out", "height", "width"),
    [(3, 8, 16, 15, 15), (40, 32, 8, 7, 7), (2, 12, 8, 3, 3), (1, 3, 24, 1, 1), (5, 8, 8, 4, 13), (1, 8, 8, 70, 90)],
)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("pool", [False, True])
def test_values_and_gradients_are_those_of_a_convolution(
    n: int, c_in: int, c_out: int, height: int, width: int, threads: int, pool: bool
) -> None:
    if pool and height == 1:
        pytest.skip("one pixel is not pooled")
    torch.manual_seed(0)
    layer = WinogradConv2d(c_in, c_out, pool=pool)
    x = torch.randn(n, c_in, height, width, requires_grad=True)
    direction = torch.randn(n, c_out, height // (1 + pool), width // (1 + pool))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        y = layer(x)
        found = torch.autograd.grad(y, (x, layer.weight), direction)
    finally:
        torch.set_num_threads(before)
    x64, weight64 = x.detach().double().requires_grad_(), layer.weight.detach().double().requires_grad_()
    y64 = F.conv2d(x64, weight64, padding=1)
    y64 = F.max_pool2d(y64, 2) if pool else y64
    expected = torch.autograd.grad(y64, (x64, weight64), direction.double())
    assert_near(y, y64)
    for mine, theirs in zip(found, expected, strict=True):
        assert_near(mine, theirs)


def test_the_same_bits_every_time() -> None:
    torch.manual_seed(0)
    layer, x = WinogradConv2d(16, 16), torch.randn(50, 16, 9, 9, requires_grad=True)

    def once() -> list[Tensor]:
        y = layer(x)
        return [y.detach(), *torch.autograd.grad(y.square().sum(), (x, layer.weight))]

    first = once()
    for again in (once() for _ in range(3)):
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_what_the_kernel_does_not_serve_is_convolved_directly() -> None:
    torch.manual_seed(0)
    odd, x = WinogradConv2d(8, 12), torch.randn(2, 8, 5, 5)
    assert torch.equal(odd(x), nn.Conv2d.forward(odd, x))
    pooled = WinogradConv2d(8, 12, pool=True)
    assert torch.equal(pooled(x), F.max_pool2d(nn.Conv2d.forward(pooled, x), 2))
    assert WinogradConv2d(8, 16)(torch.zeros(0, 8, 5, 5)).shape == (0, 16, 5, 5)
    double, x64 = WinogradConv2d(8, 8).double(), torch.randn(2, 8, 5, 5, dtype=torch.float64)
    assert torch.equal(double(x64), F.conv2d(x64, double.weight, padding=1))


def test_what_is_not_a_number_is_not_pooled_away() -> None:
    layer = WinogradConv2d(8, 8, pool=True)
    mixed = 0
    for place in range(64):  # of 8×8 pixels, four tiles: beside a border of tiles some of the four outputs are numbers
        x = torch.zeros(1, 8, 8, 8)
        x[0, 0, place // 8, place % 8] = torch.nan
        direct = nn.Conv2d.forward(layer, x)
        expected = F.max_pool2d(direct, 2).isnan()  # Winograd's spreads further, to whole tiles
        assert layer(x)[expected].isnan().all()
        mixed += int((expected & ~direct[:, :, ::2, ::2].isnan()).sum())
    assert mixed > 0


def test_what_torch_refuses_is_refused() -> None:
    with pytest.raises(RuntimeError, match="channels"):
        WinogradConv2d(16, 8)(torch.zeros(1, 12, 4, 4))
    with pytest.raises(RuntimeError, match="input size"):
        WinogradConv2d(8, 16)(torch.zeros(2, 8, 0, 5))


@pytest.mark.parametrize("width", [8, 6])
def test_a_network_has_the_same_weights_outputs_and_cost(width: int) -> None:
    x = torch.randn(16, 3, 32, 32)
    nets = {}
    choices: tuple[Convolution, ...] = ("winograd", "direct")
    for convolution in choices:
        nets[convolution] = build_model(
            ModelConfig(name="fast_cnn", width=width, convolution=convolution), (3, 32, 32), 10, seed=0
        )
    for mine, theirs in zip(nets["winograd"].parameters(), nets["direct"].parameters(), strict=True):
        assert torch.equal(mine, theirs)
    torch.testing.assert_close(nets["winograd"](x), nets["direct"](x), rtol=1e-4, atol=1e-5)
    assert network_cost(nets["winograd"], x[:2]) == network_cost(nets["direct"], x[:2])


def test_a_lock_that_a_killed_compiler_left_does_not_block() -> None:
    kernel()
    left = Path(cpp_extension._get_build_directory("pars_winograd", verbose=False)) / "lock"
    left.touch()
    code = "from pars.models.winograd import kernel; kernel()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert not left.exists()


def test_where_nothing_can_be_compiled_it_says_what_is_missing(tmp_path: Path) -> None:
    code = "from pars.models import ModelConfig, build_model; "
    code += "build_model(ModelConfig(name='fast_cnn', width=8, convolution='winograd'), (3, 32, 32), 10, seed=0)"
    env = os.environ | {"TORCH_EXTENSIONS_DIR": str(tmp_path), "CXX": "no-such-compiler"}
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    last = found.stderr.strip().splitlines()[-1]
    assert "UserError: Winograd convolutions cannot be compiled" in last
    assert "C++ compiler" in last
    assert "--model.convolution direct" in last
