"""The cost of a row against the closed form: 2 operations per multiply-add, twice that again on the way back."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from engine.helpers import assert_identical
from pars.engine.flops import NetworkCost, network_cost
from pars.models import ModelConfig, build_model


@pytest.mark.parametrize("rows", [2, 5])
def test_linear_layers(rows: int) -> None:
    # The first layer needs the gradient of its weights only, the others that of their inputs as well.
    network = nn.Sequential(nn.Linear(7, 11), nn.ReLU(), nn.Linear(11, 3))
    first, second = 2 * 7 * 11, 2 * 11 * 3
    assert network_cost(network, torch.zeros(rows, 7)) == NetworkCost(first + second, 2 * first + 3 * second)


def test_convolutions() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 4, 3, stride=2, padding=1),
        nn.Flatten(),
        nn.Linear(4 * 4 * 4, 5),
    )
    first, second, head = 2 * 8 * 8 * 8 * 3 * 9, 2 * 4 * 4 * 4 * 8 * 9, 2 * 64 * 5
    expected = NetworkCost(first + second + head, 2 * first + 3 * (second + head))
    assert network_cost(network, torch.zeros(2, 3, 8, 8)) == expected


def test_a_resnet_costs_what_the_literature_says() -> None:
    network = build_model(ModelConfig(name="preact_resnet18"), (3, 32, 32), 10, seed=0)
    cost = network_cost(network, torch.zeros(2, 3, 32, 32))
    assert cost.forward == pytest.approx(2 * 0.556e9, rel=0.01)  # 0.56 G multiply-adds
    assert cost.training == pytest.approx(3 * cost.forward, rel=0.01)


def test_counting_leaves_the_network_as_it_was() -> None:
    network = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).eval()
    before = copy.deepcopy(network.state_dict())
    network_cost(network, torch.randn(6, 4))
    assert_identical(network.state_dict(), before)
    assert not network.training
    assert all(p.grad is None for p in network.parameters())
