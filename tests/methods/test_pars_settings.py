"""PARS' hyper-parameters: the paper's values, the lengths of its stages, and what is said about wrong ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pars.errors import UserError
from pars.methods import PARS, Draw, Task
from pars.methods.parts import priority
from pars.noise import NoiseConfig
from pars.run import preset


def task(epochs: int = 100) -> Task:
    return Task(n_rows=4, n_classes=2, labels=torch.tensor([0, 1, 0, -1]), epochs=epochs)


def lengths(method: Any, epochs: int = 100) -> list[tuple[str, int]]:
    return [(stage.name, stage.epochs) for stage in method.stages(task(epochs))]


def test_the_paper_variant_has_the_papers_values() -> None:
    m = PARS.paper()
    assert (m.tau, m.lambda_S, m.lambda_N, m.lambda_R, m.mu, m.robust) == (0.95, 1.0, 0.1, 1.0, 3.0, "nce+mae")
    assert (m.raw_anchor, m.raw_weight, m.min_share, m.teacher) == ("ambiguous", "one", 0.0, "current")
    assert (m.mask_view, m.balance_memory, m.late) == ("weak", 0.0, 1.0)
    assert (m.joint_forward, m.pool, m.ramp, m.negatives) == (True, "all", 0.0, 1)
    assert (m.pseudo, m.raw_negative, m.pseudo_negative, m.pseudo_positive) == (True, "complement", True, "ce")


def test_the_paper_variant_can_be_changed() -> None:
    m = PARS.paper(tau=0.8, joint_forward=False)
    assert (m.tau, m.joint_forward, m.raw_anchor) == (0.8, False, "ambiguous")


@pytest.mark.parametrize(
    ("name", "kind", "rate", "warm_up"),
    [
        ("cifar10", "symmetric", 0.2, 25),
        ("cifar10", "symmetric", 0.5, 25),
        ("cifar10", "asymmetric", 0.4, 25),
        ("cifar10", "symmetric", 0.8, 40),
        ("cifar10", "symmetric", 0.9, 40),
        ("cifar100", "symmetric", 0.2, 50),
        ("cifar100", "symmetric", 0.9, 50),
    ],
)
def test_the_cifar_recipes_warm_up_as_long_as_the_paper(name: str, kind: Any, rate: float, warm_up: int) -> None:
    config = preset(name)(NoiseConfig(kind=kind, rate=rate))
    assert lengths(config.method, config.train.epochs) == [("warm-up", warm_up), ("main", 100 - warm_up)]
    assert isinstance(config.method, PARS)
    assert config.method.robust == ("nce+mae" if name == "cifar10" else "10*nce+mae")


def test_without_a_number_the_warm_up_is_a_share_of_the_run() -> None:
    assert lengths(PARS(warm_up_share=0.25), 8) == [("warm-up", 2), ("main", 6)]
    assert lengths(PARS(warm_up=0), 8) == [("warm-up", 0), ("main", 8)]
    assert lengths(PARS(warm_up=8), 8) == [("warm-up", 8), ("main", 0)]


def test_only_the_main_stage_draws_a_second_batch_and_only_if_it_needs_one() -> None:
    assert [stage.draws for stage in PARS.paper().stages(task())] == [{}, {"more": Draw("all", 3.0)}]
    assert [stage.draws for stage in PARS(mu=2.5).stages(task())] == [{}, {"more": Draw("all", 2.5)}]
    assert [stage.draws for stage in PARS(pool="batch").stages(task())] == [{}, {}]
    assert [stage.draws for stage in PARS(pseudo=False).stages(task())] == [{}, {}]


def test_only_the_main_stage_draws_what_is_useful() -> None:
    first, second = PARS(draw="useful", pool="batch").stages(task())
    assert first.draws == {}
    assert second.draws == {"labelled": Draw(priority.drawn_rows)}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tau": 1.01}, r"method\.tau is 1\.01, expected a number from 0 to 1"),
        ({"tau": -0.1}, r"method\.tau is -0\.1"),
        ({"tau": float("nan")}, r"method\.tau is nan"),
        ({"warm_up_share": 2}, r"method\.warm_up_share is 2"),
        ({"min_share": 1.5}, r"method\.min_share is 1\.5"),
        ({"ramp": -1}, r"method\.ramp is -1"),
        ({"balance_memory": 1.5}, r"method\.balance_memory is 1\.5, expected a number from 0 to 1"),
        ({"lambda_S": -1}, r"method\.lambda_S is -1, expected a number of at least 0"),
        ({"lambda_N": -0.1}, r"method\.lambda_N is -0\.1"),
        ({"lambda_R": float("nan")}, r"method\.lambda_R is nan"),
        ({"mu": 0}, r"method\.mu is 0"),
        ({"mu": float("inf")}, r"method\.mu is inf.* at most 1000"),
        ({"mu": 1e300}, r"method\.mu is 1e\+300"),
        ({"negatives": 10**9}, r"method\.negatives is 10+, .* at most 1000"),
        ({"lambda_S": 1e300}, r"method\.lambda_S is 1e\+300, expected a number of at least 0 and at most 1e\+06"),
        ({"mu": float("nan")}, r"method\.mu is nan"),
        ({"negatives": 0}, r"method\.negatives is 0"),
        ({"momentum": 1}, r"method\.momentum is 1"),
        ({"late": 1.1}, r"method\.late is 1\.1, expected a number from 0 to 1"),
        ({"late_tau": -1}, r"method\.late_tau is -1"),
        ({"shared": 0.5}, r"method\.shared is 0\.5, expected 1 with late = 1"),
        ({"shared": 1.1}, r"method\.shared is 1\.1, expected a number from 0 to 1"),
        ({"robust": "ncee"}, r"no loss 'ncee'"),
    ],
)
def test_a_wrong_value_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        PARS(**changes)


@pytest.mark.parametrize("warm_up", [-1, 11])
def test_a_warm_up_that_does_not_fit_the_run_is_refused(warm_up: int) -> None:
    with pytest.raises(
        UserError, match=rf"method\.warm_up is {warm_up} epochs, expected 0 to 10.* set --method\.warm-up too"
    ):
        PARS(warm_up=warm_up).stages(task(10))
