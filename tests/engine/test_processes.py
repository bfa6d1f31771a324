"""Two processes train as one does. Both are started once; two_processes.py has what they run."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from engine.helpers import assert_identical, make_trainer
from engine.two_processes import BY_GLOO, METHODS, outcome
from pars.engine import Processes
from pars.errors import UserError
from pars.methods import REGISTRY, by_name

SCRIPT = Path(__file__).with_name("two_processes.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The results of both processes."""
    folder = tmp_path_factory.mktemp("processes")
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT)]
    both = [
        subprocess.Popen([*command, str(rank), str(folder)], env=env, stderr=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    for process in both:
        _, said = process.communicate(timeout=900)
        assert process.returncode == 0, said
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.fixture(scope="module")
def alone() -> dict[str, dict[str, torch.Tensor]]:
    """What a single process ends with, by method; filled by the tests."""
    return {}


@pytest.mark.parametrize("name", [*METHODS, *(f"{name} by gloo" for name in BY_GLOO)])
def test_two_processes_train_as_one(
    name: str, found: list[dict[str, Any]], alone: dict[str, dict[str, torch.Tensor]]
) -> None:
    torch.set_num_threads(1)
    method = name.removesuffix(" by gloo")
    if method not in alone:
        alone[method] = outcome(method)
    together = found[0][name]
    assert_identical(together, found[1][name])  # the second knows all that the first does
    assert alone[method].keys() == together.keys()
    first = [f"gradient.{network}" for network in range(by_name(method).networks)]  # the first step of each network
    for key, tensor in alone[method].items():
        if key in first or key.startswith("loss.1."):
            assert (together[key] - tensor).norm() <= 1e-5 * tensor.norm(), f"{name}: {key}"
        else:  # a gradient of 21 steps later is less certain than the weights that it is added to
            later = key.startswith(("gradient.", "optimizer."))
            atol = 1e-3 * max(1.0, float(tensor.abs().max())) if later else 1e-4
            torch.testing.assert_close(together[key], tensor, rtol=1e-4, atol=atol, msg=f"{name}: {key}")


def test_shared_memory_exchanges_what_gloo_does(found: list[dict[str, Any]]) -> None:
    if sys.platform == "linux" and platform.machine() == "x86_64":
        assert found[0]["shared"]
    for each in found:
        by_gloo, shared = each["exchanged"]
        assert_identical(by_gloo, shared)
    assert torch.equal(found[0]["exchanged"][1]["sum.5000"], torch.arange(5000.0) * 2)


def test_a_process_that_has_ended_is_named(found: list[dict[str, Any]]) -> None:
    assert found[0]["alone"].startswith("rank 1 has ended" if found[0]["shared"] else "another process has ended")


def test_batch_norm_over_two_processes_is_that_of_the_whole_batch(found: list[dict[str, Any]]) -> None:
    torch.manual_seed(0)
    x = torch.randn(9, 3, 2, 2).requires_grad_()
    layer = nn.BatchNorm2d(3)
    out = layer(x)
    (out * out.detach().cos()).sum().backward()
    both = [each["batch norm"] for each in found]
    joined = {name: torch.cat([each[name] for each in both]) for name in ("out", "by_input")}
    torch.testing.assert_close(joined["out"], out.detach())
    torch.testing.assert_close(joined["by_input"], x.grad)
    for name, parameter in (("weight", layer.weight), ("bias", layer.bias)):
        torch.testing.assert_close(both[0][name] + both[1][name], parameter.grad)
    for each in both:
        torch.testing.assert_close(each["mean"], layer.running_mean)
        torch.testing.assert_close(each["var"], layer.running_var)


def test_what_one_process_says_all_know(found: list[dict[str, Any]]) -> None:
    for each in found:
        assert each["text"] == "of the first, ä"
        assert each["flags"] == [False, True]
        assert each["error"] == "not here"


def test_a_method_that_cannot_is_refused_on_several_gpus_with_the_reason() -> None:
    assert [name for name in REGISTRY if by_name(name).one_gpu] == ["mlnt"]
    with pytest.raises(UserError, match="MLNT trains on one GPU only: its meta-gradient"):
        make_trainer(by_name("mlnt"), processes=Processes(0, 2), device="cuda")


def test_a_batch_smaller_than_the_number_of_processes_is_refused() -> None:
    with pytest.raises(UserError, match=r"2 row\(s\) cannot be divided among 3 processes"):
        Processes(0, 3).apply(lambda rows: (rows,), torch.zeros(2, 1))
