"""What a method sees of a network: joint forwards, untouched statistics, the teacher, and the count of work."""

from __future__ import annotations

import copy

import pytest
import torch
from engine.helpers import assert_identical
from torch import Tensor, nn

from pars.method_api import Network

A, B = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(1)).unbind()


def with_batch_norm() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3))


def without_batch_norm() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


def network(module: nn.Module) -> Network:
    return Network(module, copy.deepcopy(module).eval().requires_grad_(False))


def buffers(module: nn.Module) -> dict[str, Tensor]:
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


def test_views_together_say_what_they_say_apart_where_rows_do_not_meet() -> None:
    net = network(without_batch_norm())
    together = net.together(A, B[:2], B)
    assert [len(part) for part in together] == [6, 2, 6]
    for part, view in zip(together, (A, B[:2], B), strict=True):
        torch.testing.assert_close(part, net(view), rtol=1e-6, atol=1e-7)


def test_views_together_are_one_batch_to_batch_norm() -> None:
    joint, reference = (with_batch_norm() for _ in range(2))
    network(joint).together(A, B)
    reference(torch.cat([A, B]))
    assert_identical(buffers(joint), buffers(reference))
    assert buffers(joint)["1.num_batches_tracked"] == 1


def test_predicting_leaves_running_statistics_alone_but_uses_the_batchs() -> None:
    module = with_batch_norm()
    module[3] = nn.Identity()  # without dropout, so that two forwards can be compared
    before = buffers(module)
    predicted = network(module).predict(A)
    assert not predicted.requires_grad
    assert_identical(buffers(module), before)
    assert all(m.track_running_stats for m in module.modules() if isinstance(m, nn.BatchNorm1d))
    assert torch.equal(predicted, module(A))  # training mode: this one moves the statistics
    assert not torch.equal(buffers(module)["1.running_mean"], before["1.running_mean"])


def test_statistics_are_tracked_again_after_a_failed_forward() -> None:
    module = with_batch_norm()
    with pytest.raises(RuntimeError):
        network(module).predict(torch.zeros(2, 99))
    assert all(m.track_running_stats for m in module.modules() if isinstance(m, nn.BatchNorm1d))


def test_the_teacher_is_the_average_without_dropout_normalized_by_its_batch() -> None:
    module = with_batch_norm()
    net = network(module)
    with torch.no_grad():
        next(module.parameters()).add_(1)  # the average has not followed yet
    before = buffers(net.average)
    reference = copy.deepcopy(net.average).eval()
    next(m for m in reference.modules() if isinstance(m, nn.BatchNorm1d)).train()
    taught = net.teacher(A)
    assert torch.equal(taught, net.teacher(A))  # no dropout
    assert torch.equal(taught, reference(A))
    assert not torch.equal(taught, module.eval()(A))
    assert not taught.requires_grad
    assert_identical(buffers(net.average), before)
    assert not any(m.training for m in net.average.modules())


def test_work_is_counted_in_rows() -> None:
    net = network(without_batch_norm())
    net(A)
    net.together(A, B)
    assert (net.forwards, net.backwards) == (0, 6 + 12)
    net.predict(A)
    net.teacher(A[:5])
    assert (net.forwards, net.backwards) == (6 + 5, 18)
