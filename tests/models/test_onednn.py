"""Linear layers by oneDNN equal torch's and a product in float64, and step aside where they do not apply."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pars.engine import network_cost
from pars.models import ModelConfig, build_model
from pars.models.onednn import OneDNNLinear, _multiply

D_IN, D_OUT = 384, 128
available = pytest.mark.skipif(_multiply is None, reason="this torch has no oneDNN")


def rows(n: int, requires_grad: bool = False) -> torch.Tensor:
    x = torch.randn(n, D_IN, generator=torch.Generator().manual_seed(n))
    return x.requires_grad_(requires_grad)


def is_own(output: torch.Tensor) -> bool:
    """Whether the product, without its bias, was computed by oneDNN."""
    return type(output.grad_fn).__name__ == "_ProductBackward"


@available
@pytest.mark.parametrize("n", [1, 2, 127, 508])
def test_values_and_gradients_are_those_of_a_product_in_float64(n: int) -> None:
    layer, x = OneDNNLinear(D_IN, D_OUT, bias=False), rows(n, requires_grad=True)
    output = layer(x)
    assert is_own(output)
    g = torch.randn(n, D_OUT, generator=torch.Generator().manual_seed(0))
    output.backward(g)
    assert x.grad is not None
    assert layer.weight.grad is not None
    w64, x64, g64 = (t.detach().numpy().astype(np.float64) for t in (layer.weight, x, g))
    for found, expected in ((output, x64 @ w64.T), (x.grad, g64 @ w64), (layer.weight.grad, g64.T @ x64)):
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def test_a_bias_is_added_and_learns() -> None:
    layer = OneDNNLinear(D_IN, D_OUT)
    plain = nn.Linear(D_IN, D_OUT)
    plain.load_state_dict(layer.state_dict())
    x = rows(9)
    for net in (layer, plain):
        net(x).square().sum().backward()
    torch.testing.assert_close(layer(x), plain(x))
    assert plain.bias.grad is not None
    torch.testing.assert_close(layer.bias.grad, plain.bias.grad)


@pytest.mark.parametrize("case", ["few weights", "no rows", "float64", "three dimensions"])
def test_where_it_does_not_apply_torch_multiplies(case: str) -> None:
    layer = OneDNNLinear(8 if case == "few weights" else D_IN, D_OUT, bias=False)
    x = torch.randn(0 if case == "no rows" else 3, layer.in_features)
    if case == "float64":
        layer, x = layer.double(), x.double()
    if case == "three dimensions":
        x = x[None]
    output = layer(x)
    assert not is_own(output)
    assert torch.equal(output, nn.functional.linear(x, layer.weight))


def test_functional_transforms_see_a_differentiable_product() -> None:
    layer, x = OneDNNLinear(D_IN, D_OUT, bias=False), rows(3)

    def energy(weight: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = torch.func.functional_call(layer, {"weight": weight}, (x,))
        return output.square().sum() / 2

    weight = layer.weight.detach()
    tangent = torch.ones_like(weight)
    product = torch.func.jvp(torch.func.grad(energy), (weight,), (tangent,))[1]
    torch.testing.assert_close(product, tangent @ x.T @ x)  # the Hessian of |W xᵀ|²/2 maps T to T xᵀ x


def test_a_network_with_it_has_the_same_weights_and_costs_the_same() -> None:
    example = rows(4)
    plain, fast = (
        build_model(ModelConfig(name="mlp", hidden=(128,), batch_norm=True, matmul=matmul), (D_IN,), 10, seed=3)
        for matmul in ("torch", "onednn")
    )
    assert isinstance(fast.body[0], OneDNNLinear)  # type: ignore[index]
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, fast.state_dict()[name]), name
    assert network_cost(fast, example) == network_cost(plain, example)
    torch.testing.assert_close(fast(example), plain(example))
