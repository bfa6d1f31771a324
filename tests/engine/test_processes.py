"""Two processes train as one does. Both are started once; two_processes.py has what they run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from engine.helpers import assert_identical, make_trainer
from engine.two_processes import METHODS, outcome, trained
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
        _, said = process.communicate(timeout=500)
        assert process.returncode == 0, said
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("name", METHODS)
def test_two_processes_train_as_one(name: str, found: list[dict[str, Any]]) -> None:
    torch.set_num_threads(1)
    alone = outcome(trained(name))
    together = found[0][name]
    assert_identical(together, found[1][name])  # the second knows all that the first does
    assert alone.keys() == together.keys()
    for key, tensor in alone.items():
        torch.testing.assert_close(together[key], tensor, rtol=1e-4, atol=1e-5, msg=f"{name}: {key}")


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


def test_a_method_that_cannot_is_refused_with_the_reason() -> None:
    assert [name for name in REGISTRY if by_name(name).single_process] == ["mlnt"]
    with pytest.raises(UserError, match="MLNT trains in one process only: its meta-gradient"):
        make_trainer(by_name("mlnt"), processes=Processes(0, 2))


def test_a_batch_smaller_than_the_number_of_processes_is_refused() -> None:
    with pytest.raises(UserError, match=r"a batch has 2 row\(s\), fewer than the 3 processes"):
        Processes(0, 3).apply(lambda rows: (rows,), torch.zeros(2, 1))
