"""Muon against singular value decomposition, torch's SGD, and what is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from engine.helpers import SHORT, make_trainer
from pars.engine.muon import Muon, hidden_weights, orthogonal, orthogonal_flop, update_flop
from pars.methods import Supervised
from pars.models import ModelConfig, build_model


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
    assert muon.flop == plain.flop + each * muon.total_steps
