"""PARS' hyper-parameters: the paper's values, the lengths of its stages, and what is said about wrong ones."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
import torch

from pars.errors import UserError
from pars.method_api import Draw, Task
from pars.methods import PARS, PARSFast, PARSPaper
from pars.methods.parts import gradient_norm_sampling
from pars.noise import NoiseConfig
from pars.run import PRESETS, preset


def task(epochs: int = 100) -> Task:
    return Task(n_rows=4, n_classes=2, labels=torch.tensor([0, 1, 0, -1]), epochs=epochs)


def lengths(method: Any, epochs: int = 100) -> list[tuple[str, int]]:
    return [(stage.name, stage.epochs) for stage in method.stages(task(epochs))]


def test_the_paper_variant_has_the_papers_values_and_no_others() -> None:
    assert asdict(PARSPaper()) == {
        "tau": 0.95,
        "lambda_S": 1.0,
        "lambda_N": 0.1,
        "lambda_R": 1.0,
        "mu": 3.0,
        "robust": "nce+mae",
        "warm_up": None,
        "warm_up_share": 0.4,
        "pseudo": True,
        "raw_negative": "complement",
        "pseudo_negative": True,
        "pseudo_positive": "ce",
    }


@pytest.mark.parametrize("name", [name for name in PRESETS if "cifar100" not in name])
def test_in_every_preset_the_paper_variant_has_a_robust_loss_of_the_paper(name: str) -> None:
    method = preset(name)(NoiseConfig(kind="symmetric", rate=0.5), "pars-paper").method
    assert type(method) is PARSPaper
    assert method.robust == ("sce(alpha=10,beta=1,A=-9.21)" if name == "clothing1m" else "nce+mae")
    assert method.tau == 0.95


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
    assert type(config.method) is PARSPaper
    assert config.method.robust == ("nce+mae" if name == "cifar10" else "10*nce+mae")


def test_without_a_number_the_warm_up_is_a_share_of_the_run() -> None:
    assert lengths(PARS(warm_up_share=0.25), 8) == [("warm-up", 2), ("main", 6)]
    assert lengths(PARS(warm_up=0), 8) == [("warm-up", 0), ("main", 8)]
    assert lengths(PARS(warm_up=8), 8) == [("warm-up", 8), ("main", 0)]


def test_only_the_main_stage_draws_a_second_batch_and_only_if_it_needs_one() -> None:
    assert [stage.draws for stage in PARSPaper().stages(task())] == [{}, {"unlabeled": Draw("all", 3.0)}]
    assert [stage.draws for stage in PARS(mu=2.5).stages(task())] == [{}, {"unlabeled": Draw("all", 2.5)}]
    assert [stage.draws for stage in PARSFast(sampling="uniform").stages(task())] == [{}, {}]
    assert [stage.draws for stage in PARS(pseudo=False).stages(task())] == [{}, {}]


def test_only_the_main_stage_samples_by_gradient_norm() -> None:
    first, second = PARSFast().stages(task())
    assert first.draws == {}
    assert second.draws == {"labeled": Draw(gradient_norm_sampling.drawn_rows)}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tau": 1.01}, r"method\.tau is 1\.01, expected a number from 0 to 1"),
        ({"tau": -0.1}, r"method\.tau is -0\.1"),
        ({"tau": float("nan")}, r"method\.tau is nan"),
        ({"warm_up_share": 2}, r"method\.warm_up_share is 2"),
        ({"min_share": 1.5}, r"method\.min_share is 1\.5"),
        ({"balance_memory": 1.5}, r"method\.balance_memory is 1\.5, expected a number from 0 to 1"),
        ({"lambda_S": -1}, r"method\.lambda_S is -1, expected a number of at least 0"),
        ({"lambda_N": -0.1}, r"method\.lambda_N is -0\.1"),
        ({"lambda_R": float("nan")}, r"method\.lambda_R is nan"),
        ({"mu": 0}, r"method\.mu is 0"),
        ({"mu": float("inf")}, r"method\.mu is inf.* at most 1000"),
        ({"mu": 1e300}, r"method\.mu is 1e\+300"),
        ({"lambda_S": 1e300}, r"method\.lambda_S is 1e\+300, expected a number of at least 0 and at most 1e\+06"),
        ({"mu": float("nan")}, r"method\.mu is nan"),
        ({"momentum": 1}, r"method\.momentum is 1"),
        ({"agreement_start": 1.1}, r"method\.agreement_start is 1\.1, expected a number from 0 to 1"),
        ({"agreement_tau": -1}, r"method\.agreement_tau is -1"),
        ({"robust": "ncee"}, r"no loss 'ncee'"),
    ],
)
def test_a_wrong_value_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        PARSFast(**changes)


@pytest.mark.parametrize("warm_up", [-1, 11])
def test_a_warm_up_that_does_not_fit_the_run_is_refused(warm_up: int) -> None:
    with pytest.raises(
        UserError, match=rf"method\.warm_up is {warm_up} epochs, expected 0 to 10.* set --method\.warm-up too"
    ):
        PARS(warm_up=warm_up).stages(task(10))
