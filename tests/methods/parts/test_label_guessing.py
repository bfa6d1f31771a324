"""Refined and guessed labels against float64, row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from methods.by_hand import random, random_classes
from methods.reference import softmax
from pars.method_api import Network
from pars.methods.parts.label_guessing import co_guess, guess_labels, refine_labels


@pytest.mark.parametrize("temperature", [0.5, 1.0, 0.2])
def test_a_label_is_mixed_with_the_mean_prediction_as_far_as_it_is_clean_and_sharpened(temperature: float) -> None:
    views, labels = [random(seed, 6, 4) for seed in range(2)], random_classes(2, 6, 4)
    clean = torch.tensor([0.0, 0.3, 0.51, 0.8, 0.999, 1.0], dtype=torch.float64)
    found = refine_labels(labels, clean, views, temperature)
    for i in range(6):
        p = sum(softmax(view[i].double().numpy()) for view in views) / 2
        t = float(clean[i]) * np.eye(4)[labels[i]] + (1 - float(clean[i])) * p
        assert_allclose(found[i], t ** (1 / temperature) / (t ** (1 / temperature)).sum(), rtol=1e-4, atol=1e-7)


def test_a_label_that_is_surely_clean_stays_as_it_is() -> None:
    labels = random_classes(0, 5, 3)
    found = refine_labels(labels, torch.ones(5), [random(1, 5, 3)], 0.5)
    assert torch.equal(found, torch.nn.functional.one_hot(labels, 3).float())


def test_a_guess_is_the_sharpened_mean_over_views_and_networks() -> None:
    four = [random(seed, 5, 3) for seed in range(4)]
    found = guess_labels(four, 0.5)
    for i in range(5):
        p = np.mean([softmax(each[i].double().numpy()) for each in four], axis=0)
        assert_allclose(found[i], p**2 / (p**2).sum(), rtol=1e-4)


def test_for_a_co_guess_a_network_normalizes_by_the_batch_and_its_peer_by_running_averages() -> None:
    mean, variance = random(7, 1, 3)[0], random(8, 1, 3)[0].abs() + 0.5
    norms = [torch.nn.BatchNorm1d(3, affine=False) for _ in range(2)]
    for norm in norms:
        norm.load_state_dict({"running_mean": mean, "running_var": variance, "num_batches_tracked": torch.tensor(0)})
    net, peer = (Network(norm, norm) for norm in norms)
    views = [random(seed, 6, 3) for seed in range(2)]
    found = co_guess(net, peer, views, 0.5)
    arrays = [view.double().numpy() for view in views]
    logits = [(x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) for x in arrays]
    logits += [(x - mean.double().numpy()) / np.sqrt(variance.double().numpy() + 1e-5) for x in arrays]
    for i in range(6):
        p = np.mean([softmax(each[i]) for each in logits], axis=0)
        assert_allclose(found[i], p**2 / (p**2).sum(), rtol=1e-4)
    assert_allclose(norms[0].state_dict()["running_mean"], mean)
