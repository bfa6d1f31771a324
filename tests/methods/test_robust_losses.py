"""Robust losses by name: the published parameters, for ten and for a hundred classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from methods.reference import Array, make_step, random_labels, random_logits, softmax
from pars.method_api import Setting, Task
from pars.methods import Supervised
from pars.methods.robust_losses import ENTRIES

BY_NAME = {entry.name: entry for entry in ENTRIES}
LOG_ZERO = math.log(1e-4)


def nfl(p: Array, y: int) -> float:
    every = [-math.sqrt(1 - p_k) * math.log(p_k) for p_k in p]
    return every[y] / sum(every)


def nce(p: Array, y: int) -> float:
    return math.log(p[y]) / float(np.log(p).sum())


def rce(p: Array, y: int) -> float:
    """-Σ_k p_k log(one-hot label, clamped at 1e-4)."""
    return -sum(float(p_k) * LOG_ZERO for k, p_k in enumerate(p) if k != y)


# name: loss of a row for ten classes, and for a hundred
DEFINITIONS: dict[str, tuple[Callable[[Array, int], float], ...]] = {
    "mae": (lambda p, y: 1 - p[y],) * 2,
    "gce": (lambda p, y: (1 - p[y] ** 0.7) / 0.7,) * 2,
    "sce": (
        lambda p, y: -0.1 * math.log(p[y]) + rce(p, y),
        lambda p, y: -6 * math.log(p[y]) + 0.1 * rce(p, y),
    ),
    "imae": (lambda p, y: math.exp(8 * p[y] * (1 - p[y])) / (2 * (1 - p[y]) + 1e-6) * -math.log(p[y]),) * 2,
    "focal": (lambda p, y: -((1 - p[y]) ** 0.5) * math.log(p[y]),) * 2,
    "nce": (nce, nce),
    "nce+mae": (lambda p, y: nce(p, y) + 1 - p[y], lambda p, y: 10 * nce(p, y) + 1 - p[y]),
    "nce+rce": (lambda p, y: nce(p, y) + rce(p, y), lambda p, y: 10 * nce(p, y) + 0.1 * rce(p, y)),
    "nfl+mae": (lambda p, y: nfl(p, y) + 1 - p[y], lambda p, y: 10 * nfl(p, y) + 1 - p[y]),
    "nfl+rce": (lambda p, y: nfl(p, y) + rce(p, y), lambda p, y: 10 * nfl(p, y) + 0.1 * rce(p, y)),
}


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("data", ["cifar10", "cifar100"])
def test_a_step_is_the_mean_of_the_published_loss(name: str, data: Literal["cifar10", "cifar100"]) -> None:
    classes = 100 if data == "cifar100" else 10
    method = BY_NAME[name].recipe(Setting(data)).build()
    assert isinstance(method, Supervised)
    logits, labels = random_logits(1, classes=classes), random_labels(1, classes=classes)
    (stage,) = method.stages(Task(n_rows=5, n_classes=classes, labels=labels, epochs=2))
    definition = DEFINITIONS[name][data == "cifar100"]
    rows = logits["raw/weak"].detach().double().numpy()
    expected = np.mean([definition(softmax(row), y) for row, y in zip(rows, labels.tolist(), strict=True)])
    assert_allclose(stage.step(make_step(logits, labels))["raw"].item(), expected, rtol=1e-4)


@pytest.mark.parametrize("name", BY_NAME)
def test_small_data_has_the_parameters_of_ten_classes(name: str) -> None:
    small, ten = BY_NAME[name].recipe(Setting("small")), BY_NAME[name].recipe(Setting("cifar10"))
    lighter = {"loss": ten.method["loss"].value.replace("+rce", "+0.1*rce")}  # measured: at full weight it underfits
    assert small.build() == replace(ten.build(), **lighter)
    assert not small.train
    if name == "imae":  # the others' training is that of Ma et al.
        assert (ten.train["epochs"].value, ten.train["milestones"].value) == (164, (0.5, 0.75))
    else:
        assert ten.train["grad_clip"].value == 5


@pytest.mark.parametrize("name", ["mae", "nce", "nce+mae", "nce+rce", "nfl+mae", "nfl+rce"])
def test_symmetric_noise_only_shifts_and_scales_what_is_minimized(name: str) -> None:
    """Σ_k L(p, k) is the same for every prediction p: why these losses are robust (Ghosh et al. 2017)."""
    (stage,) = BY_NAME[name].recipe(Setting()).build().stages(Task(1, 10, torch.tensor([0]), 2))
    sums = []
    for seed in range(3):
        logits = random_logits(seed, rows=1, classes=10)
        sums.append(sum(stage.step(make_step(logits, torch.tensor([k])))["raw"].item() for k in range(10)))
    assert_allclose(sums, sums[0], rtol=1e-5)
