"""The noise rate: what is estimated, when, and how much is forgotten for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

from methods.by_hand import epoch_of
from methods.two_networks import random_pair, smallest
from pars.method_api import Setting
from pars.methods.parts.small_loss import (
    ForgetSchedule,
    confident_noise_rate,
    estimation_epoch,
    n_selected,
    published_noise_rate,
    small_loss_mask,
)
from pars.noise import NoiseConfig


def scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def test_the_share_forgotten_grows_linearly_and_is_whole_in_the_last_of_T_k_epochs() -> None:
    forgetting = ForgetSchedule(noise_rate=0.4, T_k=10, estimate_at=1)
    seen = []
    for index in range(13):
        epoch = replace(epoch_of(torch.tensor([0, 1]), forgetting.initial_state(), 2), index=index)
        forgetting.before_epoch(epoch)
        seen.append(epoch.notes["forget_rate"])
        assert float(epoch.state["forget_rate"]) == seen[-1]
    assert_allclose(seen, [*np.linspace(0, 0.4, 10), 0.4, 0.4, 0.4])


@pytest.mark.parametrize("T_k", [0, 1])
def test_without_a_ramp_all_is_forgotten_from_the_first_epoch_on(T_k: int) -> None:
    forgetting = ForgetSchedule(noise_rate=0.4, T_k=T_k, estimate_at=1)
    epoch = epoch_of(torch.tensor([0, 1]), forgetting.initial_state(), 2)
    forgetting.before_epoch(epoch)
    assert float(epoch.state["forget_rate"]) == 0.4


def test_a_later_stage_goes_on_with_the_ramp() -> None:
    forgetting = ForgetSchedule(noise_rate=0.4, T_k=11, estimate_at=1, done=4)
    epoch = replace(epoch_of(torch.tensor([0, 1]), forgetting.initial_state(), 2), index=1)
    forgetting.before_epoch(epoch)
    assert_allclose(float(epoch.state["forget_rate"]), 0.2)


def test_a_rate_that_is_not_given_is_estimated_once_from_labeled_rows_and_nothing_is_forgotten_before() -> None:
    forgetting = ForgetSchedule(noise_rate=None, T_k=1, estimate_at=2)
    given = torch.tensor([0, 0, 0, 1, 1, -1])  # the third label is wrong, the last row has none
    logits = torch.tensor([[9.0, 0], [9, 0], [0, 9], [0, 9], [0, 9], [9, 0]])
    state = forgetting.initial_state()
    rates = []
    for index in range(4):
        logits_now = logits if index == 2 else logits.flip(1)
        forgetting.before_epoch(replace(epoch_of(given, state, 2, logits=[logits_now]), index=index))
        rates.append(float(state["forget_rate"]))
    assert_allclose(rates, [0, 0, 0.2, 0.2])
    assert state["noise_rate"].dtype == torch.float64


def test_a_given_rate_is_never_replaced() -> None:
    forgetting = ForgetSchedule(noise_rate=0.3, T_k=1, estimate_at=0)
    epoch = epoch_of(torch.tensor([0, 1]), forgetting.initial_state(), 2, logits=[torch.tensor([[0.0, 9], [9, 0]])])
    forgetting.before_epoch(epoch)
    assert float(epoch.state["noise_rate"]) == 0.3


@pytest.mark.parametrize("seed", range(5))
def test_the_share_of_wrong_labels_is_counted_over_confident_rows(seed: int) -> None:
    p = random_pair(seed, rows=40)[0].softmax(dim=1)
    labels = torch.tensor(np.random.default_rng(seed).integers(4, size=40))
    usual = [np.mean([float(p[i, k]) for i in range(40) if labels[i] == k]) for k in range(4)]
    wrong = counted = 0
    for i in range(40):
        sure = [k for k in range(4) if float(p[i, k]) >= usual[k]]
        if sure:
            counted += 1
            wrong += max(sure, key=lambda k: float(p[i, k])) != int(labels[i])
    assert_allclose(float(confident_noise_rate(p, labels)), wrong / counted)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8])
def test_a_network_that_is_right_but_not_sure_finds_the_rate(rate: float) -> None:
    rng = np.random.default_rng(0)
    true = torch.tensor(rng.integers(5, size=4000))
    given = torch.where(
        torch.tensor(rng.random(4000)) < rate, (true + torch.tensor(rng.integers(1, 5, 4000))) % 5, true
    )
    logits = torch.nn.functional.one_hot(true, 5) * 1.5 + torch.tensor(rng.standard_normal((4000, 5))) * 0.4
    assert abs(float(confident_noise_rate(logits.softmax(dim=1), given)) - rate) < 0.03


def test_a_class_without_labels_makes_no_label_wrong() -> None:
    p = torch.tensor([[0.2, 0.1, 0.7], [0.1, 0.2, 0.7]])
    assert float(confident_noise_rate(p, torch.tensor([0, 1]))) == 0


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.2, 0.3, 0.45, 0.7, 0.8, 0.9])
def test_rows_kept_is_exact_where_the_product_is_whole(rate: float) -> None:
    for n in (10, 20, 100, 1000):
        exact = n * (100 - round(100 * rate)) // 100
        assert int(n_selected(n, scalar(rate))) == exact


def test_small_loss_keeps_the_smallest_of_some_rows_and_no_more_than_there_are() -> None:
    losses = [0.5, 0.1, 0.9, 0.3, 0.2]
    for among in ([0, 2, 3], [0], [0, 1, 2, 3, 4], []):
        mask = torch.zeros(5, dtype=torch.bool)
        mask[among] = True
        for count in range(len(among) + 1):
            kept = small_loss_mask(torch.tensor(losses), scalar(count), mask)
            assert set(kept.nonzero()[:, 0].tolist()) == smallest(losses, count, among)


def test_of_equal_losses_as_many_are_kept_as_were_asked_for() -> None:
    assert small_loss_mask(torch.ones(7), scalar(3)).tolist() == [True] * 3 + [False] * 4


def test_the_estimate_is_made_after_some_epochs_whatever_the_length() -> None:
    assert [estimation_epoch(epochs) for epochs in (2, 20, 60, 200)] == [1, 1, 4, 13]


def test_published_rates_are_shares_of_wrong_labels_and_unknown_for_labels_of_people() -> None:
    assert published_noise_rate(Setting("cifar10", NoiseConfig(kind="symmetric", rate=0.5)))["noise_rate"].value == 0.45
    assert published_noise_rate(Setting("cifar10", NoiseConfig(kind="pair", rate=0.45)))["noise_rate"].value == 0.45
    assert published_noise_rate(Setting("cifar10"))["noise_rate"].value == 0
    assert published_noise_rate(Setting("cifar10", NoiseConfig(kind="file", path="labels.npy"))) == {}
