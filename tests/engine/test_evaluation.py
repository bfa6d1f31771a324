"""Losses and selections of an epoch against counting by hand; probabilities, accuracies, calibrated statistics."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor, nn

from engine.helpers import views
from pars.data import Dataset, Split
from pars.engine.batches import EVALUATION_BATCH, Feed
from pars.engine.evaluation import EpochMeter, Evaluator, accuracy, predict_proba
from pars.method_api import Batch, Network, Selection

N, N_CLASSES = 200, 4


def no_view(name: str, index: int) -> Tensor:
    raise AssertionError("a meter needs no view")


def selections(seed: int = 0) -> tuple[list[Selection], Tensor, Tensor]:
    """Three steps' selections over rows of which a quarter has no label; all given labels, all true labels."""
    rng = np.random.default_rng(seed)
    true = torch.tensor(rng.integers(N_CLASSES, size=N))
    given = torch.where(torch.tensor(rng.random(N) < 0.4), torch.tensor(rng.integers(N_CLASSES, size=N)), true)
    given[rng.random(N) < 0.25] = -1
    steps = []
    for size in (30, 31, 30):
        rows = torch.tensor(rng.choice(N, size, replace=False))
        predicted = torch.tensor(rng.integers(N_CLASSES, size=size))
        predicted = torch.where(torch.tensor(rng.random(size) < 0.6), true[rows], predicted)
        steps.append(Selection(Batch(rows, given[rows], no_view), predicted, torch.tensor(rng.random(size) < 0.3)))
    return steps, given, true


def test_selections_match_counting_row_by_row() -> None:
    steps, given, true = selections()
    meter = EpochMeter(true)
    for selection in steps:
        meter.add_step({}, {"raw": selection})
    seen = [
        (int(given[row]), int(true[row]), predicted, selected)
        for s in steps
        for row, predicted, selected in zip(
            s.batch.rows.tolist(), s.predicted.tolist(), s.selected.tolist(), strict=True
        )
    ]

    def share(part: list[bool]) -> float:
        return sum(part) / len(part)

    assert meter.read()["selection"] == {
        "raw": pytest.approx(
            {
                "rows": len(seen),
                "selected": sum(a for *_, a in seen),
                "unselected": sum(not a for *_, a in seen),
                "pseudo_accuracy": share([p == t for _, t, p, _ in seen]),
                "pseudo_accuracy_selected": share([p == t for _, t, p, a in seen if a]),
                "pseudo_accuracy_unselected": share([p == t for _, t, p, a in seen if not a]),
                "labels_right_selected": share([g == t for g, t, _, a in seen if a and g >= 0]),
                "labels_right_unselected": share([g == t for g, t, _, a in seen if not a and g >= 0]),
                "memorized": share([p == g for g, t, p, _ in seen if g >= 0 and g != t]),
            }
        )
    }


def test_rows_whose_truth_is_unknown_do_not_count_as_wrong() -> None:
    rows = torch.arange(4)
    batch = Batch(rows, torch.tensor([0, 1, -1, -1]), no_view)
    meter = EpochMeter(torch.tensor([0, 0, 2, -1]))
    meter.add_step({}, {"raw": Selection(batch, torch.tensor([0, 0, 2, 2]), torch.tensor([True, True, True, True]))})
    assert meter.read()["selection"]["raw"]["pseudo_accuracy"] == 1.0
    assert meter.read()["selection"]["raw"]["labels_right_selected"] == 0.5


def test_without_true_labels_only_counts_are_given() -> None:
    steps, _, _ = selections()
    meter = EpochMeter(None)
    for selection in steps:
        meter.add_step({}, {"pseudo": selection})
    n_selected = sum(int(s.selected.sum()) for s in steps)
    assert meter.read()["selection"] == {"pseudo": {"rows": 91, "selected": n_selected, "unselected": 91 - n_selected}}


def test_a_share_of_nothing_is_left_out_for_it_is_not_0() -> None:
    meter = EpochMeter(torch.zeros(4, dtype=torch.int64))
    batch = Batch(torch.arange(4), torch.full((4,), -1), no_view)
    meter.add_step({}, {"raw": Selection(batch, torch.ones(4), torch.zeros(4, dtype=torch.bool))})
    assert meter.read()["selection"]["raw"] == {
        "rows": 4,
        "selected": 0,
        "unselected": 4,
        "pseudo_accuracy": 0,  # none right of four
        "pseudo_accuracy_unselected": 0,
    }


def test_losses_are_means_over_steps() -> None:
    rng = np.random.default_rng(0)
    values = rng.random((7, 2)).astype(np.float32)
    meter = EpochMeter(None)
    for a, b in values:
        meter.add_step({"a": torch.tensor(a, requires_grad=True), "b": torch.tensor(b)}, {})
    losses = meter.read()["losses"]
    assert_allclose(list(losses.values()), values.astype(np.float64).mean(0), rtol=1e-12)
    assert list(losses) == ["a", "b"]
    assert not any(tensor.requires_grad for tensor in meter.sums.values())


def test_one_step_that_is_not_a_number_shows() -> None:
    meter = EpochMeter(None)
    meter.add_step({"a": torch.tensor(1.0)}, {})
    meter.add_step({"a": torch.tensor(float("nan"))}, {})
    assert math.isnan(meter.read()["losses"]["a"])


def test_accuracy_counts_labeled_rows_only() -> None:
    probabilities = torch.eye(4)
    assert accuracy(probabilities, torch.tensor([0, 1, 0, -1])) == pytest.approx(200 / 3)


def test_prediction_is_the_networks_mean_in_evaluation_mode_whatever_the_batches() -> None:
    torch.manual_seed(0)
    modules = [torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(3, 4)) for _ in range(2)]
    x = torch.randn(1100, 3)  # more than two batches
    found = predict_proba(modules, x, [lambda t: 2 * t], "cpu")
    naive = torch.stack([m[1](2 * x).softmax(1) for m in modules]).mean(0)
    torch.testing.assert_close(found, naive)
    assert all(m.training for m in modules)
    assert not found.requires_grad


def test_prediction_is_the_mean_over_all_looks_at_a_row() -> None:
    torch.manual_seed(0)
    modules = [torch.nn.Linear(3, 4) for _ in range(2)]
    x = torch.randn(5, 3)
    found = predict_proba(modules, x, [lambda t: t, lambda t: -t], "cpu")
    naive = sum(m(sign * x).softmax(1) for m in modules for sign in (1, -1)) / 4
    torch.testing.assert_close(found, naive)


def test_notes_are_logged_where_there_are_some() -> None:
    meter = EpochMeter(None)
    meter.add_step({"a": torch.tensor(1.0)}, {})
    assert meter.read() == {"losses": {"a": 1.0}, "selection": {}}
    meter.sums["note/share"] = torch.tensor(0.25, dtype=torch.float64)
    assert meter.read() == {"losses": {"a": 1.0}, "selection": {}, "notes": {"share": 0.25}}


def test_calibration_measures_the_statistics_of_the_averaged_weights() -> None:
    torch.manual_seed(0)
    average = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)).eval()
    inputs = torch.randn(3 * EVALUATION_BATCH, 3) + torch.arange(3 * EVALUATION_BATCH)[:, None] / 100
    held_out = np.arange(len(inputs)) % 4 == 0
    labels = torch.zeros(len(inputs), dtype=torch.int64)
    feed = Feed(inputs, labels, views("none"), seed=0, device="cpu")
    data = Dataset("rows", Split(inputs.numpy(), labels.numpy()), None, ("a", "b"))
    without_norm = nn.Linear(3, 2)  # nothing to measure
    nets = [Network(copy.deepcopy(module), module) for module in (average, without_norm)]
    Evaluator(data, feed, labels, held_out).calibrate(nets)
    batches = np.array_split(np.flatnonzero(~held_out), 3)  # 3 · 384 rows
    hidden = [average[0](inputs[batch]).detach().double().numpy() for batch in batches]
    norm = average[1]
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    np.testing.assert_allclose(norm.running_mean.numpy(), np.mean([h.mean(0) for h in hidden], axis=0), rtol=1e-4)
    np.testing.assert_allclose(norm.running_var.numpy(), np.mean([h.var(0, ddof=1) for h in hidden], axis=0), rtol=1e-4)
    assert norm.momentum == 0.1
    assert not any(m.training for m in average.modules())
