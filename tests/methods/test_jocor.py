"""JoCoR against its joint loss in float64, and its gradient against finite differences."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from engine.helpers import make_trainer
from numpy.testing import assert_allclose

from methods.reference import random_labels, softmax
from methods.two_networks import (
    assert_each_is_trained_alone,
    gradients,
    random_pair,
    smallest,
    two_network_step,
)
from pars.method_api import Setting
from pars.methods.jocor import JoCoR, published
from pars.noise import NoiseConfig

Array = npt.NDArray[np.float64]


def joint_losses(first: Array, second: Array, labels: list[int], weight: float) -> list[float]:
    """(1 - λ)(CE + CE) + λ(KL + KL), row by row."""
    out = []
    for a, b, y in zip(first, second, labels, strict=True):
        p, q = softmax(a), softmax(b)
        kl = sum(float(x * np.log(x / z)) for x, z in zip(p, q, strict=True))
        lk = sum(float(z * np.log(z / x)) for x, z in zip(p, q, strict=True))
        out.append((1 - weight) * float(-np.log(p[y]) - np.log(q[y])) + weight * (kl + lk))
    return out


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("weight", "forget_rate"), [(0.9, 0.5), (0.3, 0.25), (0.0, 0.4), (1.0, 0.0)])
def test_the_loss_is_the_mean_of_the_smallest_joint_losses(seed: int, weight: float, forget_rate: float) -> None:
    logits, labels = random_pair(seed), random_labels(seed, rows=12)
    step = two_network_step(logits, labels, forget_rate=forget_rate)
    losses = JoCoR(weight=weight).step(step)
    first, second = (each.double().numpy() for each in logits)
    joint = joint_losses(first, second, labels.tolist(), weight)
    chosen = smallest(joint, int((1 - forget_rate) * 12 + 1e-9))
    assert_allclose(sum(loss.item() for loss in losses.values()), np.mean([joint[i] for i in chosen]), rtol=1e-5)
    assert set(step.selections["small_loss"].selected.nonzero()[:, 0].tolist()) == chosen


def test_the_gradient_flows_into_both_networks_through_both_divergences() -> None:
    logits, labels = random_pair(7), random_labels(7, rows=12)
    step = two_network_step(logits, labels, forget_rate=0.5)
    found = gradients(step, JoCoR(weight=0.8).step(step))
    values = [each.double().numpy() for each in logits]
    chosen = smallest(joint_losses(values[0], values[1], labels.tolist(), 0.8), 6)

    def loss(first: Array, second: Array) -> float:
        return float(np.mean([joint_losses(first, second, labels.tolist(), 0.8)[i] for i in chosen]))

    for own in (0, 1):
        for row, column in np.ndindex(12, 4):
            more, less = ([v.copy() for v in values] for _ in range(2))
            more[own][row, column] += 1e-5
            less[own][row, column] -= 1e-5
            slope = (loss(*more) - loss(*less)) / 2e-5
            assert_allclose(found[own][row, column].item(), slope, atol=1e-6)


def test_without_agreement_and_with_nothing_forgotten_two_networks_learn_as_if_alone() -> None:
    assert_each_is_trained_alone(make_trainer(JoCoR(weight=0.0, noise_rate=0.0)))


def test_published_settings() -> None:
    def method(data: str, kind: str, rate: float) -> JoCoR:
        noise = NoiseConfig(kind=kind, rate=rate, convention="exclusive")  # type: ignore[arg-type]
        built = published(Setting(data, noise)).build()  # type: ignore[arg-type]
        assert isinstance(built, JoCoR)
        return built

    assert method("cifar10", "symmetric", 0.5) == JoCoR(weight=0.9, noise_rate=0.5, T_k=10)
    assert method("cifar10", "symmetric", 0.8) == JoCoR(weight=0.65, noise_rate=0.8, T_k=10)
    assert method("cifar100", "asymmetric", 0.4) == JoCoR(weight=0.85, noise_rate=0.2, T_k=10)
