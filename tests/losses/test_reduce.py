"""Reductions: right in one process, and two processes under DDP learn what one would."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from numpy.testing import assert_allclose
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from pars.losses import class_balance, cross_entropy, mean, mean_probabilities, negative_learning

N_ROWS, N_FEATURES, N_CLASSES = 9, 4, 3
SPLIT = 3  # rows of process 0; the parts are uneven on purpose


def test_the_mean_is_over_the_kept_rows() -> None:
    values = torch.tensor([1.0, 5.0, 9.0], requires_grad=True)
    result = mean(values, torch.tensor([True, False, True]))
    (gradient,) = torch.autograd.grad(result, values)
    assert result.item() == 5
    assert gradient.tolist() == [0.5, 0, 0.5]


@pytest.mark.parametrize("rows", [0, 3])
def test_an_empty_set_contributes_nothing(rows: int) -> None:
    values = torch.full((rows,), 7.0, requires_grad=True)
    result = mean(values, torch.zeros(rows, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(result, values)
    assert result.item() == 0
    assert (gradient == 0).all()
    assert mean(torch.zeros(0)).item() == 0


def test_a_dropped_row_cannot_spoil_the_mean() -> None:
    values = torch.tensor([1.0, float("nan"), float("inf")], requires_grad=True)
    result = mean(values, torch.tensor([True, False, False]))
    (gradient,) = torch.autograd.grad(result, values)
    assert result.item() == 1
    assert gradient.tolist() == [1, 0, 0]


@pytest.mark.parametrize(("min_share", "divisor"), [(0.0, 2), (0.25, 2), (0.5, 4), (1.0, 8)])
def test_the_divisor_has_a_floor_in_shares_of_the_batch(min_share: float, divisor: int) -> None:
    values, mask = torch.arange(8.0), torch.arange(8) >= 6  # two of eight rows are kept
    assert mean(values, mask, min_share=min_share).item() == (6 + 7) / divisor


def test_an_empty_set_contributes_nothing_whatever_its_floor() -> None:
    assert mean(torch.ones(4), torch.zeros(4, dtype=torch.bool), min_share=0.5).item() == 0


def test_half_precision_is_summed_in_float32() -> None:
    values = torch.full((70000,), 1.0, dtype=torch.float16)  # the sum overflows float16
    assert mean(values).dtype == torch.float32
    assert mean(values).item() == 1
    assert_allclose(mean_probabilities(torch.full((70000, 2), 0.5, dtype=torch.float16)), [0.5, 0.5])


def rows() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features, labels, and two masks: one that is empty in process 0, one that is empty everywhere."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(N_ROWS, N_FEATURES, generator=generator)
    labels = torch.randint(N_CLASSES, (N_ROWS,), generator=generator)
    late = torch.arange(N_ROWS) >= SPLIT + 1
    return features, labels, late, torch.zeros(N_ROWS, dtype=torch.bool)


def model() -> nn.Linear:
    linear = nn.Linear(N_FEATURES, N_CLASSES)
    with torch.no_grad():
        linear.weight.copy_(torch.linspace(-1, 1, linear.weight.numel()).view_as(linear.weight))
        linear.bias.zero_()
    return linear


def step(network: nn.Module, part: slice) -> Tensor:
    """A PARS-like objective on some rows: means over all and over subsets, and the class balance."""
    features, labels, late, never = (tensor[part] for tensor in rows())
    logits = network(features)
    loss = cross_entropy(logits, labels)
    return (
        mean(loss)
        + 2 * mean(loss, late)
        + mean(negative_learning(logits, labels), ~late, min_share=0.9)
        + mean(loss, never)
        + 3 * class_balance(mean_probabilities(logits.softmax(1)))
    )


def worker(rank: int, folder: str) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    network = model()
    wrapped = DistributedDataParallel(network)  # must outlive the backward pass: it holds the averaging hooks
    loss = step(wrapped, slice(0, SPLIT) if rank == 0 else slice(SPLIT, N_ROWS))
    loss.backward()  # type: ignore[no-untyped-call]
    assert network.weight.grad is not None
    assert network.bias.grad is not None
    torch.save((loss.detach(), network.weight.grad, network.bias.grad), Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    network = model()
    loss = step(network, slice(None))
    loss.backward()  # type: ignore[no-untyped-call]
    spawn(worker, args=(str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    assert network.weight.grad is not None
    assert network.bias.grad is not None
    for rank in range(2):
        loss_2, weight_2, bias_2 = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert_allclose(loss_2, loss.detach(), rtol=1e-6)
        assert_allclose(weight_2, network.weight.grad, rtol=1e-5, atol=1e-7)
        assert_allclose(bias_2, network.bias.grad, rtol=1e-5, atol=1e-7)
