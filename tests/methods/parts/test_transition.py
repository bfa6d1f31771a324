"""The noise transition matrix: anchors, and the likelihood of a label through it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.testing import assert_allclose

from methods.by_hand import random, random_classes
from methods.reference import softmax
from pars.methods.parts.transition import anchored, condition, log_joint


def test_anchors_are_the_rows_surest_of_a_class_but_for_the_outliers() -> None:
    predictions = np.random.default_rng(0).dirichlet(np.full(5, 0.3), size=400)
    found = anchored(torch.tensor(predictions, dtype=torch.float32), 0.03).numpy()
    surest = anchored(torch.tensor(predictions, dtype=torch.float32), 0.0).numpy()
    for k in range(5):
        column = predictions[:, k]
        limit = np.percentile(column, 97)
        candidates = [i for i in range(400) if column[i] < limit]
        # Passing over the outliers of one class must not empty them for the next: the row is the whole prediction.
        assert_allclose(found[k], predictions[max(candidates, key=lambda i: column[i])], atol=1e-6)
        assert_allclose(surest[k], predictions[column.argmax()], atol=1e-6)


def test_predictions_that_are_all_the_same_give_a_matrix_nevertheless() -> None:
    assert_allclose(anchored(torch.full((7, 2), 0.5), 0.03), np.full((2, 2), 0.5))


def test_the_joint_probability_is_that_of_the_class_times_that_of_its_label() -> None:
    logits, labels = random(1, 5, 4), random_classes(1, 5, 4)
    matrices = np.random.default_rng(1).dirichlet(np.ones(4), size=(5, 4))
    log_T = torch.tensor(matrices, dtype=torch.float32).log()
    of_each, shared = log_joint(logits, labels, log_T).exp(), log_joint(logits, labels, log_T[0]).exp()
    for i, y in enumerate(labels.tolist()):
        p = softmax(logits[i].double().numpy())
        assert_allclose(of_each[i], [p[k] * matrices[i, k, y] for k in range(4)], rtol=1e-4)
        assert_allclose(shared[i], [p[k] * matrices[0, k, y] for k in range(4)], rtol=1e-4)


def test_two_classes_that_are_labeled_alike_cannot_be_told_apart() -> None:
    assert condition(torch.eye(3)) == 1
    assert condition(torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])) > 1e12
