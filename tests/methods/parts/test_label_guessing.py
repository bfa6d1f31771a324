"""Refined and guessed labels against float64, row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from methods.by_hand import random, random_classes
from methods.reference import softmax
from pars.methods.parts.label_guessing import guess_labels, refine_labels


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
