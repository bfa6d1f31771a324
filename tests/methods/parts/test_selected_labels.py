"""Labels that the network predicts with confidence, and the finish that trains on them."""

from __future__ import annotations

import numpy as np
import torch
from engine.helpers import assert_identical
from numpy.testing import assert_allclose
from torch import Tensor

from methods.reference import make_step, random_labels, random_logits
from pars.method_api import Epoch, State, Sweep, Task
from pars.methods.parts import prediction_history
from pars.methods.parts.selected_labels import finish, initial_selection, positive_step, select_labels, soft_step

WEIGHTS = torch.tensor([1.0, 3.0, 1.5, 2.0])


def state_of(rows: int, selected: list[bool]) -> State:
    return {"class_weights": WEIGHTS, "selected": torch.tensor(selected), **prediction_history.initial_history(rows, 4)}


def epoch_of(state: State, given: Tensor, rows: Tensor, index: int = 0) -> Epoch:
    def no_pass(*args: object, **kwargs: object) -> Sweep:
        raise AssertionError("no row is looked at between epochs")

    return Epoch((), index, 5, rows, given, 4, state, np.random.default_rng(0), no_pass)


def test_positive_learning_is_weighted_cross_entropy_of_selected_rows() -> None:
    logits, labels = random_logits(4), random_labels(4)
    selected = [False, True, False, True, True]
    step = make_step(logits, labels, state=state_of(5, selected))
    losses = positive_step(step)
    log_p = logits["raw/weak"].detach().double().log_softmax(1)
    total = sum(-float(WEIGHTS[labels[i]] * log_p[i, labels[i]]) for i in range(5) if selected[i])
    assert_allclose(losses["positive"].item(), total / 3, rtol=1e-5)


def test_soft_labels_are_the_history_and_classes_are_weighted() -> None:
    logits, labels = random_logits(5), random_labels(5)
    state = state_of(5, [True] * 5)
    former = [torch.randn(5, 4, generator=torch.manual_seed(seed)) for seed in range(3)]
    for said in former:
        prediction_history.add_to_history(state, torch.arange(5), said)
    before = state["history"].clone()
    losses = soft_step(make_step(logits, labels, state=state))
    soft = torch.stack([said.double().softmax(1) for said in former]).mean(0)
    log_p = logits["raw/weak"].detach().double().log_softmax(1)
    assert_allclose(losses["soft"].item(), -(WEIGHTS.double() * soft * log_p).sum() / 5, rtol=1e-3)
    assert torch.equal(state["history"], before)


def test_a_label_is_selected_by_the_mean_probability_of_the_given_class() -> None:
    given = torch.tensor([0, 1, 2, 3, -1, 0])
    rows = torch.tensor([0, 1, 2, 4, 5])  # row 3 is held out, row 4 has no label, row 5 was never trained on
    state = state_of(6, [True] * 6)
    for p in (0.9, 0.2):  # of class 0, for every row
        said = torch.tensor([p, (1 - p) / 3, (1 - p) / 3, (1 - p) / 3]).log().expand(5, 4)
        prediction_history.add_to_history(state, torch.arange(5), said)
    select_labels(epoch_of(state, given, rows), 0.5)  # mean 0.55 of class 0, 0.15 of the others
    assert state["selected"].tolist() == [True, False, False, True, True, False]
    epoch = epoch_of(state, given, rows)
    select_labels(epoch, 1 / 4)
    assert state["selected"].tolist() == [True, False, False, True, True, True]  # 1/K of a row not known yet
    assert_allclose(epoch.notes["selected"], 0.5)


def test_where_no_label_is_selected_the_last_choice_stays() -> None:
    state = state_of(3, [True, False, True])
    epoch = epoch_of(state, torch.tensor([0, 1, 2]), torch.arange(3))
    select_labels(epoch, 0.5)  # nothing is known: 1/4 each
    assert state["selected"].tolist() == [True, False, True]
    assert epoch.notes["kept_last_split"] == 1


def test_the_finish_chooses_rows_once_and_has_a_history_of_its_own() -> None:
    hook = finish((5, 5), threshold=0.5, lr=None)[0].before_epoch
    assert hook is not None
    given, state = torch.tensor([0, 1, 2]), state_of(3, [True] * 3)
    prediction_history.add_to_history(state, torch.arange(3), 9 * torch.eye(4)[[0, 1, 0]])
    hook(epoch_of(state, given, torch.arange(3)))
    assert state["selected"].tolist() == [True, True, False]
    assert not state["history_writes"].any()
    prediction_history.add_to_history(state, torch.arange(3), 9 * torch.eye(4)[[3, 3, 2]])
    kept = {name: tensor.clone() for name, tensor in state.items()}
    hook(epoch_of(state, given, torch.arange(3), index=1))
    assert_identical(state, kept)


def test_class_weights_are_the_largest_count_over_each_count() -> None:
    task = Task(8, 4, torch.tensor([0, 0, 0, 1, 3, 3, -1, -1]), 4)
    assert initial_selection(task, weigh_classes=True)["class_weights"].tolist() == [
        1,
        3,
        1,
        1.5,
    ]  # nothing to weigh in class 2
    assert initial_selection(task, weigh_classes=False)["class_weights"].tolist() == [1, 1, 1, 1]


def test_the_finish_starts_twice_from_fresh_weights_with_its_own_learning_rate() -> None:
    selected, soft = finish((7, 3), threshold=0.5, lr=0.1)
    assert (selected.epochs, soft.epochs) == (7, 3)
    for stage in (selected, soft):
        assert stage.restart == "all"
        assert stage.train == {"schedule": "steps", "milestones": (0.4, 0.6), "gamma": 0.1, "lr": 0.1}
    assert "lr" not in finish((1, 1), threshold=0.5, lr=None)[0].train
