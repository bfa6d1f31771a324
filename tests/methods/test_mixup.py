"""Mixup against its definition, row by row."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from methods.reference import make_step, random_labels, random_logits, softmax
from pars.errors import UserError
from pars.method_api import Network, Setting
from pars.methods.mixup import ENTRIES, Mixup


@pytest.mark.parametrize("seed", range(4))
def test_a_step_is_both_labels_cross_entropy_on_mixed_inputs(seed: int) -> None:
    """The network is nonlinear: mixing its outputs would not be the same."""
    inputs, labels = random_logits(seed), random_labels(seed)
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4))
    losses = Mixup(alpha=0.8).step(make_step(inputs, labels, seed=seed, net=Network(module, copy.deepcopy(module))))

    rng = np.random.default_rng(seed)
    weight, partner = rng.beta(0.8, 0.8), rng.permutation(5)
    x = inputs["raw/weak"].detach().double().numpy()
    w1, b1, w2, b2 = (parameter.detach().double().numpy() for parameter in module.parameters())
    expected = []
    for i, j in enumerate(partner.tolist()):
        p = softmax(w2 @ np.tanh(w1 @ (weight * x[i] + (1 - weight) * x[j]) + b1) + b2)
        expected.append(-weight * math.log(p[labels[i]]) - (1 - weight) * math.log(p[labels[j]]))
    assert_allclose(losses["mixup"].item(), np.mean(expected), rtol=1e-5)


def test_the_mixing_weight_is_not_folded_to_the_upper_half() -> None:
    """λ < ½ is as likely as λ > ½: a row may be mostly its partner, unlike in MixMatch."""
    inputs = random_logits(0)
    x, labels = inputs["raw/weak"].detach(), random_labels(0)
    seen: list[float] = []

    class Probe(nn.Module):
        def forward(self, mixed: torch.Tensor) -> torch.Tensor:
            partner = np.random.default_rng(seed)
            partner.beta(0.8, 0.8)
            other = x[torch.from_numpy(partner.permutation(5))]
            moved = (x - other).flatten()
            seen.append(float(((mixed.detach() - other).flatten() @ moved) / (moved @ moved)))
            return mixed

    for seed in range(40):
        Mixup(alpha=0.8).step(make_step(inputs, labels, seed=seed, net=Network(Probe(), Probe())))
    assert 10 < sum(weight < 0.5 for weight in seen) < 30


def test_published_settings() -> None:
    (entry,) = ENTRIES
    assert entry.recipe(Setting("cifar10")).build() == Mixup(alpha=32.0)
    assert entry.recipe(Setting()).build() == Mixup(alpha=32.0)


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan])
def test_a_shape_that_no_beta_distribution_has_is_refused(alpha: float) -> None:
    with pytest.raises(UserError, match=r"method\.alpha is .*, expected a number above 0"):
        Mixup(alpha=alpha)
