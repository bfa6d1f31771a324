"""PES: confident rows, class weights and the step against loops; what is trained in which stage, bit for bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from engine.helpers import Recorder, assert_identical, make_trainer, toy, weights
from numpy.testing import assert_allclose
from torch import Tensor

from methods.by_hand import epoch_of, random, random_classes, step_of
from methods.reference import softmax
from pars.engine import TrainConfig, Trainer
from pars.errors import UserError
from pars.method_api import Setting, Task
from pars.methods import Supervised
from pars.methods.pes import (
    PES,
    class_weights,
    confident_rows,
    confident_share,
    published,
    published_cs,
    unconfident_rows,
    unconfident_share,
)
from pars.noise import NoiseConfig

N, K = 30, 4
GIVEN = random_classes(0, N, K)
GIVEN[:4] = -1  # unlabeled
ROWS = torch.tensor([i for i in range(N) if i % 5 != 2])  # the others are held out
SIX = TrainConfig(epochs=6, batch_size=16, lr=0.1, ema=0.9)


def fresh(method: PES) -> dict[str, Tensor]:
    return method.initial_state(Task(n_rows=N, n_classes=K, labels=GIVEN, epochs=3))


def test_confident_rows_are_those_whose_label_the_mean_of_two_predictions_has() -> None:
    method, views = PES(), [random(1, N, K, size=6), random(2, N, K, size=6)]
    epoch = epoch_of(GIVEN, fresh(method), K, logits=views, rows=ROWS)
    method.split(epoch)
    counts = [0] * K
    for i in range(N):
        inside = i in ROWS.tolist()
        p = sum(softmax(view[i].double().numpy()) for view in views)
        confident = inside and int(np.argmax(p)) == GIVEN[i]
        assert epoch.state["confident"][i] == confident
        assert epoch.state["unconfident"][i] == (inside and not confident)
        if confident:
            counts[int(GIVEN[i])] += 1
    mean = sum(counts) / sum(count > 0 for count in counts)
    expected = [min(3.0, mean / count) if count else 0.0 for count in counts]
    assert_allclose(epoch.state["class_weights"], expected, rtol=1e-6)
    assert_allclose(epoch.notes["confident"], sum(counts) / len(ROWS), rtol=1e-6)


def test_class_weights_are_the_mean_size_over_the_own_and_clipped_with_mixmatch_alone() -> None:
    counts = torch.tensor([20, 4, 0, 1, 15])
    assert_allclose(class_weights(counts), [0.5, 2.5, 0.0, 10.0, 10 / 15], rtol=1e-6)
    sure = 9 * torch.nn.functional.one_hot(torch.tensor([0] * 20 + [1] * 4 + [3] + [2] * 15), 4).float()
    given = sure.argmax(1)
    for semi, expected in ((True, [0.5, 2.5, 10 / 15, 3.0]), (False, [0.5, 2.5, 10 / 15, 10.0])):
        epoch = epoch_of(
            given, {**fresh(PES()), "confident": given < 0, "unconfident": given < 0}, 4, logits=[sure, sure]
        )
        PES(semi=semi).split(epoch)
        assert_allclose(epoch.state["class_weights"], expected, rtol=1e-6)


@pytest.mark.parametrize(("confident", "unconfident", "share"), [(6, 18, 0.5), (18, 6, 0.25), (12, 12, 0.5), (9, 0, 0)])
def test_unconfident_rows_have_their_share_of_a_batch_and_at_most_half(
    confident: int, unconfident: int, share: float
) -> None:
    which = torch.arange(confident + unconfident)
    state = {"confident": which < confident, "unconfident": which >= confident}
    assert unconfident_share(state) == share
    assert confident_share(state) == 1 - share
    assert confident_rows(state).tolist() == list(range(confident))
    expected = range(confident, confident + unconfident) if unconfident else range(confident)
    assert unconfident_rows(state).tolist() == list(expected)


@pytest.mark.parametrize("before", ["nothing", "a split"])
def test_a_collapsed_network_leaves_the_last_split(before: str) -> None:
    method = PES()
    state = fresh(method)
    if before == "a split":
        method.split(epoch_of(GIVEN, state, K, logits=[random(1, N, K), random(2, N, K)], rows=ROWS))
    old = {name: tensor.clone() for name, tensor in state.items()}
    one_class = torch.tensor([0.0, 5.0, 0.0, 0.0]).expand(N, K)
    epoch = epoch_of(GIVEN, state, K, logits=[one_class, one_class], rows=ROWS)
    method.split(epoch)
    assert epoch.notes["kept_last_split"] == 1
    if before == "a split":
        assert_identical(state, old)
    else:
        assert state["confident"].nonzero()[:, 0].tolist() == [i for i in ROWS.tolist() if GIVEN[i] >= 0]
        assert state["unconfident"].nonzero()[:, 0].tolist() == [i for i in ROWS.tolist() if GIVEN[i] < 0]


@pytest.mark.parametrize(("progress", "alpha"), [(0.49, 4.0), (0.5, 0.75)])
def test_a_mixmatch_step_weighs_classes_and_sharpens_guesses(progress: float, alpha: float) -> None:
    x, u = [random(3, 4, K), random(4, 4, K)], [random(5, 3, K), random(6, 3, K)]
    labels, c = torch.tensor([2, 0, 3, 2]), torch.tensor([0.5, 1.5, 3.0, 0.0])
    state = {"confident": torch.arange(N) < 4, "class_weights": c}
    batches = {
        "labeled": (torch.arange(4), labels, {f"weak/{i}": view for i, view in enumerate(x)}),
        "unconfident": (torch.arange(4, 7), labels[:3], {f"weak/{i}": view for i, view in enumerate(u)}),
    }
    step = step_of(batches, state, seed=2, progress=progress, stage_progress=0.1)
    losses = PES(lambda_u=20.0, ramp=0.4, T=0.5).mixmatch_step(step)
    rng = np.random.default_rng(2)
    share = rng.beta(alpha, alpha)
    share = max(share, 1 - share)
    guesses = []
    for i in range(3):
        p = (softmax(u[0][i].double().numpy()) + softmax(u[1][i].double().numpy())) / 2
        guesses.append(p**2 / (p**2).sum())
    inputs = np.concatenate([view.double().numpy() for view in (*x, *u)])
    targets = np.concatenate([np.eye(K)[labels], np.eye(K)[labels], guesses, guesses])
    entropy = error = 0.0
    for i, j in enumerate(rng.permutation(14)):
        p = softmax(share * inputs[i] + (1 - share) * inputs[j])
        t = share * targets[i] + (1 - share) * targets[j]
        if i < 8:
            entropy += float((c.double().numpy() * -t * np.log(p)).sum()) / 8
        else:
            error += float(((p - t) ** 2).sum()) / (6 * K)
    assert_allclose(losses["confident"], entropy, rtol=1e-5)
    assert_allclose(losses["guessed"], 20 * 0.25 * error, rtol=1e-5)
    assert (step.net.forwards, step.net.backwards) == (6, 14)


def test_without_mixmatch_a_step_is_the_weighted_mean_of_cross_entropy() -> None:
    logits, labels, c = random(3, 5, K), random_classes(3, 5, K), torch.tensor([0.5, 1.5, 8.0, 0.7])
    state = {"confident": torch.ones(5, dtype=torch.bool), "class_weights": c}
    step = step_of({"labeled": (torch.arange(5), labels, {"weak/0": logits})}, state)
    expected = torch.nn.functional.cross_entropy(logits.double(), labels, weight=c.double())
    assert_allclose(PES(semi=False).confident_step(step)["confident"], expected, rtol=1e-5)


class Snapshots(Recorder):
    """The network's parameters after each epoch."""

    trainer: Trainer

    def __init__(self) -> None:
        super().__init__()
        self.after: list[dict[str, Tensor]] = []

    def epoch(self, line: dict[str, Any]) -> None:
        super().epoch(line)
        self.after.append({name: p.detach().clone() for name, p in self.trainer.nets[0].module.named_parameters()})


def watched(method: PES, **options: Any) -> Snapshots:
    seen = Snapshots()
    seen.trainer = make_trainer(method, config=SIX, callback=seen, **options)
    seen.trainer.run()
    return seen


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


@pytest.mark.parametrize("semi", [True, False])
def test_refining_trains_a_fresh_head_alone_and_then_the_body_alone(semi: bool) -> None:
    seen = watched(PES(T1=2, T2=2, semi=semi), data=toy(unlabeled=6))
    last = "mixmatch" if semi else "confident"
    assert [line["stage"] for line in seen.lines] == ["train"] * 2 + ["refine"] * 2 + [last] * 2
    every = set(seen.after[0])
    head = {name for name in every if name.startswith("head.")}
    assert changed(seen.after[0], seen.after[1]) == every
    assert changed(seen.after[1], seen.after[2]) == head
    assert changed(seen.after[2], seen.after[3]) == head
    assert changed(seen.after[3], seen.after[5]) == every - head


def test_the_head_may_be_trained_on() -> None:
    seen = watched(PES(T1=2, T2=2, frozen_head=False))
    assert changed(seen.after[3], seen.after[5]) == set(seen.after[0])


def test_the_refined_head_forgets_what_the_first_one_learned() -> None:
    """At a rate of nothing it is the draw of a fresh layer: within ±1/sqrt(8), whatever was learned before."""
    seen = watched(PES(T1=2, T2=1, refine_lr=0.0))
    before, after = seen.after[1]["head.weight"], seen.after[2]["head.weight"]
    assert before.abs().max() > 8**-0.5
    assert after.abs().max() <= 8**-0.5


def test_before_the_stop_it_is_cross_entropy() -> None:
    ours, plain = (make_trainer(m, config=SIX) for m in (PES(T1=6), Supervised(loss="ce")))
    ours.run()
    plain.run()
    assert_identical(weights(ours), weights(plain))


def test_labels_that_are_all_predicted_leave_nothing_to_guess_and_training_goes_on() -> None:
    seen = watched(PES(T1=2, T2=2, refine_lr=0.3), data=toy(noise=0.0, spread=0.1))
    assert seen.lines[-1]["notes"]["confident"] == 1
    assert seen.lines[-1]["selection"]["confident"]["rows"] == 60
    assert seen.lines[-1]["selection"]["guessed"]["rows"] == 2 * 4  # two a step: BatchNorm needs them
    assert seen.lines[-1]["test"]["raw"] == 100


@pytest.mark.parametrize("field", ["T", "alpha", "late_alpha", "largest_weight"])
@pytest.mark.parametrize("value", [0.0, math.inf, math.nan])
def test_what_makes_no_sense_is_refused(field: str, value: float) -> None:
    with pytest.raises(UserError, match=rf"method\.{field} is {value}, expected a number"):
        PES(**{field: value})  # type: ignore[arg-type]


def test_stages_fill_the_run_or_say_why_not() -> None:
    for epochs in range(2, 61):
        task = Task(n_rows=N, n_classes=K, labels=GIVEN, epochs=epochs)
        assert sum(stage.epochs for stage in PES().stages(task)) == epochs
    task = Task(n_rows=N, n_classes=K, labels=GIVEN, epochs=22)
    with pytest.raises(UserError, match=r"method\.T2 is 5 epochs, expected 0 to 2"):
        PES(T1=20, T2=5).stages(task)


def test_published_settings() -> None:
    def build(data: str, kind: str, rate: float) -> PES:
        method = published(Setting(data, NoiseConfig(kind=kind, rate=rate))).build()  # type: ignore[arg-type]
        assert isinstance(method, PES)
        return method

    instance = build("cifar10", "instance", 0.4)
    assert (instance.lambda_u, instance.T1, instance.refine_lr, instance.frozen_head) == (15.0, 20, 1e-4, True)
    pair = build("cifar100", "pair", 0.45)
    assert (pair.lambda_u, pair.T1) == (50.0, 35)
    assert [build("cifar10", "symmetric", rate).lambda_u for rate in (0.2, 0.5, 0.8)] == [5, 15, 25]
    assert published(Setting("cifar10")).train["epochs"].value == 305
    assert not published_cs(Setting("cifar10")).method["semi"].value
