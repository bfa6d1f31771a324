"""AugDesc: which views it uses for what, and DivideMix where they are the same, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from engine.helpers import assert_identical, make_trainer, toy, weights

from methods.by_hand import epoch_of
from methods.test_dividemix import GIVEN, SIX, USABLE, K, N, hand_step
from pars.engine import Trainer
from pars.method_api import Epoch, Network, Setting, Sweep, ViewName
from pars.methods import by_name
from pars.methods.augdesc import AugDesc, published
from pars.methods.dividemix import DivideMix
from pars.noise import NoiseConfig


def run_of(method: DivideMix, **options: Any) -> Trainer:
    trainer = make_trainer(method, config=SIX, data=toy(unlabeled=9), **options)
    trainer.run()
    return trainer


def test_with_weak_views_in_place_of_strong_ones_it_is_dividemix() -> None:
    """Weights, optimizers and splits."""
    assert_identical(run_of(AugDesc(descent_view="weak")).tensors(), run_of(DivideMix()).tensors())


def test_with_strong_views_that_are_weak_it_is_dividemix() -> None:
    assert_identical(run_of(AugDesc(), plain_views=True).tensors(), run_of(DivideMix(), plain_views=True).tensors())


def test_strong_views_make_a_difference() -> None:
    ours, other = weights(run_of(AugDesc())), weights(run_of(DivideMix()))
    assert any(not torch.equal(ours[name], other[name]) for name in ours)


def used_views(method: DivideMix) -> set[str]:
    """The views that a warm-up step and a main step ask for, as "step: view/index"."""
    used: set[str] = set()
    for step_name in ("warm_up_step", "main_step"):
        step, _, _ = hand_step(1)
        getattr(method, step_name)(step)
        used |= {f"{step_name}: {name}/{index}" for batch in step.batches.values() for name, index in batch._made}
    return used


@pytest.mark.parametrize(
    ("name", "warm_up", "main"),
    [
        ("dividemix", "weak", ("weak",)),
        ("augdesc-ws-waw", "weak", ("weak", "strong")),
        ("augdesc-ws-saw", "strong", ("weak", "strong")),
        ("augdesc-ws", "weak", ("weak", "strong")),
    ],
)
def test_each_name_uses_its_views(name: str, warm_up: str, main: tuple[str, ...]) -> None:
    method = by_name(name)
    assert isinstance(method, DivideMix)
    expected = {f"main_step: {view}/{index}" for view in main for index in (0, 1)}
    assert used_views(method) == expected | {f"warm_up_step: {warm_up}/0"}


@pytest.mark.parametrize("view", ["plain", "weak", "strong"])
def test_losses_are_analyzed_on_the_view_that_is_asked_for(view: ViewName) -> None:
    asked: list[tuple[str, int, int]] = []
    logits = torch.eye(K)[GIVEN.clamp_min(0)] * torch.linspace(0, 5, N)[:, None]

    def run_pass(net: Network, rows: torch.Tensor, view: ViewName, index: int, *, features: bool) -> Sweep:
        asked.append((view, index, len(rows)))
        return Sweep(logits[rows], None)

    method = AugDesc(analysis_view=view)
    state = {f"clean_{i}": torch.ones(N) for i in (1, 2)}
    epoch: Epoch = epoch_of(GIVEN, state, K, rows=torch.tensor(USABLE))
    method.divide(replace(epoch, nets=epoch.nets * 2, run_pass=run_pass))
    labeled = sum(1 for i in USABLE if GIVEN[i] >= 0)
    assert asked == [(view, 0, labeled), (view, 1, labeled)]


def test_published_settings() -> None:
    def schedule(data: Any, kind: Any, rate: float, warm_up_view: Any) -> tuple[int, int]:
        recipe = published(Setting(data, NoiseConfig(kind=kind, rate=rate)), warm_up_view=warm_up_view)
        epochs, (share,) = recipe.train["epochs"].value, recipe.train["milestones"].value
        assert recipe.train["epochs"].source == "code"
        assert {name for name, cited in recipe.method.items() if cited.source == "ours"} == {"confidence_penalty"}
        assert recipe.method["confidence_penalty"].value == (1 if kind == "asymmetric" else 0)
        assert recipe.views["policy"].value == "cifar10"
        return epochs, round(share * epochs)

    rates = (0.2, 0.5, 0.8, 0.9)
    by_rate = [schedule("cifar10", "symmetric", rate, "weak") for rate in rates]
    assert by_rate == [(300, 150), (300, 150), (350, 200), (350, 250)]
    by_rate = [schedule("cifar10", "symmetric", rate, "strong") for rate in rates]
    assert by_rate == [(300, 150), (300, 200), (350, 200), (350, 250)]
    assert schedule("cifar10", "asymmetric", 0.4, "weak") == (350, 250)
    assert schedule("cifar10", "asymmetric", 0.4, "strong") == (300, 150)
    assert [schedule("cifar100", "symmetric", rate, "weak") for rate in rates] == [(400, 300)] * 4
    noise = NoiseConfig(kind="symmetric", rate=0.9)
    method = published(Setting("cifar100", noise)).build()
    assert isinstance(method, AugDesc)
    assert (method.lambda_u, method.p_threshold, method.loss_epochs, method.warm_up) == (150, 0.6, 5, 30)
    assert (method.ratio, method.warm_up_view, method.descent_view, method.use_unlabeled) == (
        1,
        "weak",
        "strong",
        False,
    )
    assert published(Setting("cifar10", NoiseConfig(kind="pair", rate=0.4))).train["epochs"].source == "ours"


def test_the_plus_uses_rows_that_never_had_a_label() -> None:
    trainer = run_of(by_name("augdesc-ws+"))  # type: ignore[arg-type]
    assert (trainer.state["clean_1"][-9:] == 0).all()
    trainer = run_of(by_name("augdesc-ws"))  # type: ignore[arg-type]
    assert (trainer.state["clean_1"][-9:] == -1).all()
