"""Learning rate and settings of training against their definitions; Muon against SVD and torch's SGD."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from engine.helpers import SHORT, make_trainer
from pars.engine import TrainConfig
from pars.engine.optimizer import SGD, Muon, hidden_weights, learning_rate, orthogonal, orthogonal_flop, update_flop
from pars.errors import UserError
from pars.methods import Supervised
from pars.models import ModelConfig, build_model


def test_the_papers_schedule_falls_from_03_to_00585() -> None:
    rates = [learning_rate(TrainConfig(lr=0.03), step=step, total=100) for step in range(101)]
    assert rates[0] == 0.03
    assert_allclose(rates[-1], 0.00585, atol=5e-6)
    assert_allclose(rates, 0.03 * np.cos(7 * np.pi * np.arange(101) / 1600), rtol=1e-12)
    assert all(a > b for a, b in itertools.pairwise(rates))


def test_the_other_schedules() -> None:
    cosine = [learning_rate(TrainConfig(schedule="cosine", lr=2.0), step=step, total=4) for step in range(5)]
    assert_allclose(cosine, [2, 1 + math.sqrt(0.5), 1, 1 - math.sqrt(0.5), 0], atol=1e-12)
    assert {learning_rate(TrainConfig(schedule="constant", lr=0.1), step=step, total=9) for step in range(10)} == {0.1}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"epochs": 0}, r"train\.epochs is 0"),
        ({"batch_size": 0}, r"train\.batch_size is 0"),
        ({"evaluate_every": 0}, r"train\.evaluate_every is 0"),
        ({"checkpoint_every": -1}, r"train\.checkpoint_every is -1"),
        ({"steps_per_epoch": 0}, r"train\.steps_per_epoch is 0"),
        ({"lr": -0.1}, r"train\.lr is -0\.1"),
        ({"lr": float("nan")}, r"train\.lr is nan"),
        ({"weight_decay": -1}, r"train\.weight_decay is -1"),
        ({"epochs": 10**400}, r"train\.epochs is 1000"),
        ({"steps_per_epoch": 10**14}, r"train\.steps_per_epoch is 10+, expected at most 1000000000"),
        ({"batch_size": 10**14}, r"train\.batch_size is 10+, expected at most"),
        ({"lr": 1e300}, r"train\.lr is 1e\+300, expected a number of at least 0 and at most 1e\+30"),
        ({"weight_decay": float("inf")}, r"train\.weight_decay is inf"),
        ({"ema": 1.0}, r"train\.ema is 1\.0"),
        ({"nesterov": True, "momentum": 0}, r"train\.nesterov needs train\.momentum"),
    ],
)
def test_a_wrong_setting_is_named(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        TrainConfig(**changes)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 3))


def optimizer(module: nn.Module, *, nesterov: bool = True, lr: float = 0.1) -> Muon:
    hidden = hidden_weights(module)
    return Muon(module.parameters(), hidden, lr=lr, momentum=0.9, weight_decay=0.01, nesterov=nesterov)


@pytest.mark.parametrize("shape", [(6, 40), (40, 6), (8, 3, 3, 3), (8, 8)])
def test_singular_values_move_towards_one_and_vectors_stay(shape: tuple[int, ...]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    found = orthogonal(matrix)
    assert found.shape == matrix.shape
    u, s, v = torch.linalg.svd(matrix.reshape(len(matrix), -1).double(), full_matrices=False)
    values = u.T @ found.reshape(len(matrix), -1).double() @ v.T
    expected = s / s.norm()
    for _ in range(3):
        expected = 3.4445 * expected - 4.7750 * expected**3 + 2.0315 * expected**5
    assert torch.allclose(values, expected.diag(), atol=1e-4)
    # As Jordan 2024 has it: what is not much smaller than the rest comes near to 1.
    assert expected[s > 0.1 * s.norm()].min() > 0.5
    assert expected.max() < 1.3


def test_the_size_of_a_gradient_does_not_matter() -> None:
    matrix = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(orthogonal(matrix), orthogonal(1e-4 * matrix), atol=1e-5)
    assert not orthogonal(torch.zeros(4, 9)).any()


def test_hidden_weights_keep_their_norm_and_move_by_the_learning_rate() -> None:
    module = network()
    steps = optimizer(module, lr=0.01)
    x = torch.randn(32, 5, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        steps.zero_grad()
        module(x).square().sum().backward()
        before = [weight.detach().clone() for weight in hidden_weights(module)]
        steps.step()
        for weight, old in zip(hidden_weights(module), before, strict=True):
            scaled = old * len(old) ** 0.5 / old.norm()
            moved = (weight.detach() - scaled) / 0.01
            assert torch.linalg.svdvals(moved).max() < 1.3  # an orthogonal matrix, about, times the learning rate


@pytest.mark.parametrize("nesterov", [False, True])
def test_everything_else_moves_as_by_sgd(nesterov: bool) -> None:
    ours, theirs = network(), network()
    hidden = [name for name, p in theirs.named_parameters() if any(p is h for h in hidden_weights(theirs))]
    assert hidden == ["0.weight", "3.weight"]  # neither BatchNorm's, nor the biases, nor the layer that makes logits
    reference = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=nesterov)
    step = optimizer(ours, nesterov=nesterov)
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            p.grad = torch.randn(p.shape, generator=generator)
            q.grad = p.grad.clone()
        step.step()
        reference.step()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(p, q, atol=1e-6) == (name not in hidden), name


@pytest.mark.parametrize(
    ("momentum", "weight_decay", "nesterov"),
    [(0.9, 0.01, True), (0.9, 0.01, False), (0.9, 0.0, True), (0.0, 0.01, False)],
)
def test_sgd_is_that_of_torch_bit_for_bit(momentum: float, weight_decay: float, nesterov: bool) -> None:
    ours, theirs = network(), network()
    settings: dict[str, Any] = {"lr": 0.1, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
    step, reference = SGD(ours.parameters(), **settings), torch.optim.SGD(theirs.parameters(), **settings)
    generator = torch.Generator().manual_seed(1)
    for number in range(4):
        for index, (p, q) in enumerate(zip(ours.parameters(), theirs.parameters(), strict=True)):
            if index == 3 and number != 2:
                continue  # has a gradient once in a while, as frozen layers have
            p.grad = torch.randn(p.shape, generator=generator)
            q.grad = p.grad.clone()
        for one in (step, reference):
            one.step()
            one.zero_grad()
        if number == 1:  # what was saved is loaded again
            step.load_state_dict(step.state_dict())
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.equal(p, q), name


def test_weights_without_a_gradient_stay() -> None:
    module = network()
    step, before = optimizer(module), [p.detach().clone() for p in module.parameters()]
    step.step()
    assert all(torch.equal(p, old) for p, old in zip(module.parameters(), before, strict=True))


@pytest.mark.parametrize("shape", [(6, 40), (40, 6), (8, 3, 3, 3)])
def test_its_operations_are_those_torch_counts(shape: tuple[int, ...]) -> None:
    matrix = torch.randn(shape)
    with FlopCounterMode(display=False) as counter:
        orthogonal(matrix)
    assert counter.get_total_flops() == orthogonal_flop(matrix.shape)


def test_operations_of_frozen_weights_and_of_other_optimizers_do_not_count() -> None:
    module = build_model(ModelConfig(name="fast_cnn", width=32), (3, 32, 32), 10, seed=0)
    assert update_flop(module, "sgd") == 0
    assert update_flop(module, "muon") == sum(orthogonal_flop(weight.shape) for weight in hidden_weights(module))
    module.requires_grad_(False)
    assert update_flop(module, "muon") == 0


def test_a_run_counts_them() -> None:
    plain = make_trainer(Supervised(), config=SHORT)
    plain.run()

    muon = make_trainer(Supervised(), config=replace(SHORT, optimizer="muon"))
    muon.run()
    each = update_flop(muon.nets[0].module, "muon")
    assert each > 0
    assert muon.flop == plain.flop + each * muon.runner.total_steps
