"""Constants that count epochs, in runs of another length."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Literal

import pytest
import torch
from engine.helpers import make_trainer, toy
from numpy.testing import assert_allclose

from pars.engine import TrainConfig
from pars.errors import UserError
from pars.method_api import Method, Setting, Task, rescale
from pars.methods import REGISTRY, by_name, recipe
from pars.methods.disc import DISC
from pars.methods.elr import ELR
from pars.methods.jnpl import JNPL
from pars.methods.joint_optim import JointOptim
from pars.methods.pencil import PENCIL
from pars.methods.selfie import SELFIE
from pars.noise import NoiseConfig

AS_IT_IS: dict[str, Any] = {"reference_epochs": None}
CIFAR: tuple[Literal["cifar10", "cifar100"], ...] = ("cifar10", "cifar100")
KINDS: tuple[Literal["symmetric", "asymmetric", "pair"], ...] = ("symmetric", "asymmetric", "pair")
COUNTING = [name for name in REGISTRY if by_name(name).epoch_constants]


def reference_of(method: Method) -> int | None:
    found: int | None = getattr(method, "reference_epochs")  # noqa: B009
    return found


@pytest.mark.parametrize("epochs", [5, 20, 60, 400])
def test_an_average_has_gone_as_far_at_the_same_share_of_either_run(epochs: int) -> None:
    """An average that starts at 0 and takes in 1 each epoch, in a loop."""

    def halfway(momentum: float, steps: float) -> float:
        average = 0.0
        for _ in range(int(steps)):
            average = momentum * average + (1 - momentum)
        return average

    m = rescale(0.95, "momentum", reference=200, epochs=epochs)
    assert_allclose(halfway(m, epochs), halfway(0.95, 200), rtol=1e-9)
    if epochs % 2 == 0:
        assert_allclose(halfway(m, epochs / 2), halfway(0.95, 100), rtol=1e-9)


def test_values_that_move_once_per_epoch_have_moved_as_far_at_the_end() -> None:
    moved = sum(rescale(300.0, "rate", reference=320, epochs=40) * 0.01 for _ in range(40))
    assert_allclose(moved, 320 * 300 * 0.01, rtol=1e-9)


@pytest.mark.parametrize(("epochs", "length"), [(320, 10), (640, 20), (160, 5), (60, 2), (2, 2)])
def test_a_length_is_its_share_of_the_run_and_at_least_2(epochs: int, length: int) -> None:
    assert rescale(10, "length", reference=320, epochs=epochs) == length


@pytest.mark.parametrize("kind", ["momentum", "length", "rate"])
def test_at_its_own_length_a_constant_is_the_same_to_the_last_bit(kind: str) -> None:
    for value in (0.0, 1e-8, 0.7, 0.9999, 1.0):
        assert rescale(value, kind, reference=123, epochs=123) == value  # type: ignore[arg-type]


@pytest.mark.parametrize("name", REGISTRY)
def test_a_method_whose_constants_count_epochs_knows_for_how_many_they_are(name: str) -> None:
    method = by_name(name)
    names = {field.name for field in fields(method)}
    assert method.epoch_constants.keys() <= names
    assert ("reference_epochs" in names) == bool(method.epoch_constants)
    if method.epoch_constants:
        assert reference_of(method) is not None


@pytest.mark.parametrize("name", COUNTING)
def test_published_runs_have_their_published_constants(name: str) -> None:
    for data in CIFAR:
        for kind in KINDS:
            found = recipe(name, Setting(data, NoiseConfig(kind=kind, rate=0.4)))
            method = found.build()
            assert method.at_length(found.train["epochs"].value) is method


@pytest.mark.parametrize("name", COUNTING)
def test_rescaled_twice_is_rescaled_once(name: str) -> None:
    method = by_name(name)
    once = method.at_length(20)
    assert once.at_length(20) is once
    assert once.epoch_constants
    assert reference_of(once) == 20
    unscaled = replace(once, **AS_IT_IS)
    assert unscaled.at_length(7) is unscaled


def test_constants_of_a_short_run() -> None:
    disc, elr, selfie = by_name("disc").at_length(20), by_name("elr").at_length(75), by_name("selfie").at_length(100)
    assert isinstance(disc, DISC) and isinstance(elr, ELR) and isinstance(selfie, SELFIE)  # noqa: PT018
    assert_allclose((disc.m, elr.beta), (0.95**10, 0.9**2))
    assert selfie.q == 5
    pencil = by_name("pencil").at_length(64)
    assert isinstance(pencil, PENCIL)
    assert_allclose(pencil.lambda_labels, 1500)


def test_histories_are_as_long_as_their_share_of_the_run() -> None:
    task = Task(n_rows=4, n_classes=3, labels=torch.tensor([0, 1, 2, -1]), epochs=160)
    assert JointOptim(reference_epochs=320).initial_state(task)["history"].shape == (4, 5, 3)
    assert JointOptim().initial_state(task)["history"].shape == (4, 10, 3)
    assert JNPL(reference_epochs=320).initial_state(task)["history"].shape == (4, 5, 3)
    assert SELFIE(q=15, reference_epochs=300).initial_state(task)["predictions"].shape == (4, 8)


@pytest.mark.parametrize(("name", "constant"), [("elr", "beta"), ("elr+", "beta"), ("t-revision", "averaging")])
def test_the_first_stage_trains_with_the_constant_of_its_length(name: str, constant: str) -> None:
    method = replace(by_name(name), **{constant: 0.7, "reference_epochs": 60})
    task = Task(n_rows=4, n_classes=3, labels=torch.tensor([0, 1, 2, -1]), epochs=20)
    trained: Any = method.stages(task)[0].step
    assert_allclose(getattr(trained.__self__, constant), 0.7**3)


def test_the_thresholds_of_disc_rise_within_21_epochs() -> None:
    """As published for 200 epochs they would reach 1 - 0.95^20 = 0.64 of the confidence, most of it near the end."""
    found = {}
    for reference in (None, 200):
        method = DISC(m=0.95, reference_epochs=reference)
        config = TrainConfig(epochs=21, batch_size=32, lr=0.05, ema=0.9)
        trainer = make_trainer(method, data=toy(120, spread=0.5), config=config)
        trainer.run()
        labeled = trainer.labels >= 0
        confidence = trainer.state["weak"].amax(dim=1)[labeled].mean()
        found[reference] = float(trainer.state["weak_threshold"][labeled].mean() / confidence)
    assert found[None] < 0.7 < 0.85 < found[200]


def test_a_length_below_one_epoch_is_refused() -> None:
    with pytest.raises(UserError, match=r"method\.reference_epochs is 0, expected 1 epoch or more, or none"):
        DISC(reference_epochs=0)
