"""What wrong labels can still say about predictions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from methods.reference import make_step, random_labels, random_logits
from pars.methods import PARS
from pars.methods.parts.pseudo_label_trust import (
    count_label_ranks,
    denoised_prior,
    estimated_accuracy,
    label_frequencies,
    trust,
)


def ranks_of(right: float, noise: float, *, n: int = 400_000, classes: int = 10) -> torch.Tensor:
    """Ranks of given labels: a prediction is right with probability `right`, else one of the next choices mostly is."""
    rng = np.random.default_rng(0)
    falling = 0.4 ** np.arange(classes - 1)
    share = np.concatenate([[right], (1 - right) * falling / falling.sum()])
    rank = rng.choice(classes, size=n, p=share)
    given = np.where(rng.random(n) < noise, rng.integers(classes, size=n), rank)
    return torch.tensor(np.bincount(given, minlength=classes), dtype=torch.float32)


@pytest.mark.parametrize("noise", [0.0, 0.2, 0.5, 0.8, 0.9])
@pytest.mark.parametrize("right", [0.4, 0.7, 0.95])
def test_the_share_of_right_predictions_shows_through_symmetric_noise(right: float, noise: float) -> None:
    assert estimated_accuracy(ranks_of(right, noise)).item() == pytest.approx(right, abs=0.03 if noise < 0.8 else 0.08)


def test_counts_are_ranks_of_given_labels_among_sure_rows_and_fade() -> None:
    logits, labels = random_logits(2, rows=50)["raw/weak"], random_labels(2, rows=50)
    sure = torch.arange(50) % 3 > 0
    old = torch.tensor([5.0, 1.0, 0.0, 2.0])
    expected = [0.99 * v for v in old.tolist()]
    for i in range(50):
        if sure[i]:
            order = sorted(range(4), key=lambda k: -float(logits[i, k].detach()))
            expected[order.index(int(labels[i]))] += 1
    state = {"label_ranks": old}
    count_label_ranks(state, logits, labels, sure)
    assert state["label_ranks"].tolist() == pytest.approx(expected, rel=1e-6)


def test_where_nobody_voted_or_nothing_stands_out_predictions_are_trusted() -> None:
    assert trust(torch.zeros(10)) == 1
    assert trust(torch.full((10,), 7.0)) == 1


@pytest.mark.parametrize("votes", [[10.0, 90.0], [10.0, 45.0, 45.0], [0.0, *[10.0] * 9]])
def test_predictions_that_labels_contradict_are_not_trusted(votes: list[float]) -> None:
    assert trust(torch.tensor(votes)) == 0


def test_of_two_classes_the_majority_of_labels_decides() -> None:
    assert trust(torch.tensor([60.0, 40.0])) == 1
    assert trust(torch.tensor([40.0, 60.0])) == 0


def test_trust_is_none_at_half_wrong_and_whole_at_three_of_five_right() -> None:
    assert trust(ranks_of(0.3, 0.5)) == 0
    assert trust(ranks_of(0.9, 0.5)) == 1
    assert 0 < float(trust(torch.tensor([55.0, 45.0, 0.0, 0.0]))) < 1


def test_untrusted_self_training_leaves_the_robust_loss_on_given_labels() -> None:
    logits, labels = random_logits(4), random_labels(4)
    wrong = torch.tensor([40.0, 60.0, 0.0, 0.0])
    method = PARS(tau=0.5, teacher="current")
    untrusted = method.main_step(make_step(logits, labels, state={"label_ranks": wrong}))
    full = PARS(tau=0.5, teacher="current", trust="full").main_step(make_step(logits, labels))
    plain = PARS(tau=0.5, teacher="current", trust="full", raw_weight="one").main_step(make_step(logits, labels))
    assert all(untrusted[name].item() == 0 for name in ("pseudo", "pseudo_negative", "balance"))
    assert untrusted["raw"].item() == pytest.approx(plain["raw"].item(), rel=1e-6)
    assert full["pseudo"].item() > 0


def test_a_step_lets_its_labels_vote_after_it_was_weighed() -> None:
    logits, labels = random_logits(4), random_labels(4)
    step = make_step(logits, labels, state={"label_ranks": torch.zeros(4)})
    losses = PARS(tau=0.5, teacher="current").main_step(step)
    trusted = PARS(tau=0.5, teacher="current", trust="full").main_step(make_step(logits, labels))
    assert {name: value.item() for name, value in losses.items()} == pytest.approx(
        {name: value.item() for name, value in trusted.items()}, rel=1e-6
    )
    sure = logits["raw/weak"].softmax(1).amax(1) > 0.5
    expected = {"label_ranks": torch.zeros(4)}
    count_label_ranks(expected, logits["raw/weak"], labels, sure)
    assert torch.equal(step.state["label_ranks"], expected["label_ranks"])


@pytest.mark.parametrize("noise", [0.0, 0.2, 0.5, 0.8])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_how_common_classes_are_shows_through_symmetric_noise(classes: int, noise: float) -> None:
    true = torch.arange(4, classes + 4) / sum(range(4, classes + 4))
    given = (1 - noise) * true + noise / classes
    votes = torch.full((classes,), noise / classes)
    votes[0] += 1 - noise  # of a network that is right on all rows
    assert denoised_prior(given, 1000 * votes).tolist() == pytest.approx(true.tolist(), abs=1e-5)


def test_a_class_is_never_thought_gone_and_without_votes_labels_are_taken_at_their_word() -> None:
    shares = torch.tensor([0.7, 0.25, 0.05])
    assert denoised_prior(shares, torch.zeros(3)).tolist() == pytest.approx(shares.tolist())
    assert denoised_prior(shares, torch.tensor([1.0, 1.0, 1.0])).min() > 0.01


def test_unlabeled_rows_do_not_count_as_a_class() -> None:
    labels = np.array([2, 0, -1, 2, 2, -1, 0, 1])
    expected = np.bincount(labels[labels >= 0]) / 6
    assert label_frequencies(torch.from_numpy(labels), 3).tolist() == pytest.approx(expected.tolist())
