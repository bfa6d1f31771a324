"""DISC: thresholds, sets and the step against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from engine.helpers import Recorder, make_trainer, toy
from numpy.testing import assert_allclose
from torch import Tensor

from methods.by_hand import epoch_of, random, random_classes, step_of
from methods.reference import softmax
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.method_api import Setting, Task
from pars.methods.disc import DISC, published
from pars.noise import NoiseConfig

N, K = 40, 4
GIVEN = random_classes(0, N, K)
GIVEN[-3:] = -1  # unlabeled
ROWS = torch.tensor([i for i in range(N) if i % 6])  # the others are held out


def fresh(method: DISC) -> dict[str, Tensor]:
    return method.initial_state(Task(n_rows=N, n_classes=K, labels=GIVEN, epochs=3))


def mid_run(method: DISC, seed: int) -> dict[str, Tensor]:
    """Predictions and thresholds as they may be in the middle of a run."""
    state = fresh(method)
    state["weak"], state["strong"] = random(seed, N, K, size=4).softmax(1), random(seed + 1, N, K, size=4).softmax(1)
    state["weak_threshold"], state["strong_threshold"] = (random(seed + i, N).abs() / 4 for i in (2, 3))
    return state


def test_sets_are_those_of_a_loop_over_rows_and_thresholds_move_only_then() -> None:
    method = DISC(m=0.9, sigma=0.3)
    state = mid_run(method, 11)
    old = {name: tensor.clone() for name, tensor in state.items()}
    epoch = epoch_of(GIVEN, state, K, rows=ROWS)
    method.choose(epoch)
    met = set()
    for i in ROWS.tolist():
        y = int(GIVEN[i])
        if y < 0:
            assert all(torch.equal(state[name][i], old[name][i]) for name in state)
            continue
        weak, strong = (old[view][i].double().numpy() for view in ("weak", "strong"))
        w, s = float(old["weak_threshold"][i]), float(old["strong_threshold"][i])
        by_weak, by_strong = weak[y] > w, strong[y] > s
        both = (weak + strong) / 2
        corrected = not (by_weak or by_strong) and both.max() > min((w + s) / 2 + 0.3, 0.99)
        kind = "clean" if by_weak and by_strong else "hard" if by_weak or by_strong else "rest"
        assert state["clean"][i] == (kind == "clean")
        assert state["hard"][i] == (kind == "hard")
        assert state["corrected"][i] == corrected
        assert state["labels"][i] == (both.argmax() if corrected else y)
        assert_allclose(state["weak_threshold"][i], 0.9 * w + 0.1 * weak.max(), rtol=1e-6)
        assert_allclose(state["strong_threshold"][i], 0.9 * s + 0.1 * strong.max(), rtol=1e-6)
        met.add("corrected" if corrected else kind)
    assert met == {"clean", "hard", "corrected", "rest"}


@pytest.mark.parametrize(
    ("threshold", "confidence", "corrected"),
    [(0.4, 0.85, False), (0.4, 0.95, True), (0.8, 0.985, False), (0.8, 0.995, True)],
)
def test_a_label_is_corrected_above_the_threshold_and_sigma_but_never_needs_more_than_99_percent(
    threshold: float, confidence: float, corrected: bool
) -> None:
    """0.4 + 0.5 = 0.9: with max in place of min, 0.95 would not do; 0.8 + 0.5 is no probability: 0.99 it is."""
    method = DISC(sigma=0.5)
    state = fresh(method)
    sure = torch.full((N, K), (1 - confidence) / (K - 1))
    sure[torch.arange(N), (GIVEN + 1) % K] = confidence
    state["weak"], state["strong"] = sure, sure.clone()
    state["weak_threshold"] = state["strong_threshold"] = torch.full((N,), threshold)
    method.choose(epoch_of(GIVEN, state, K))
    labeled = GIVEN >= 0
    kept = (state["clean"] | state["hard"] | state["corrected"])[labeled]
    assert (state["corrected"][labeled] == corrected).all()
    # Where nobody is left the split of before is kept: at first, everything is clean.
    assert kept.all()
    assert torch.equal(state["labels"][labeled], ((GIVEN + 1) % K if corrected else GIVEN)[labeled])


def test_before_a_row_was_in_a_step_its_label_is_clean() -> None:
    method = DISC()
    state = fresh(method)
    other = next(i for i in ROWS.tolist() if 0 <= GIVEN[i] != GIVEN[5])
    for row in (5, other):  # two classes are predicted as they are labeled, one row otherwise
        state["weak"][row] = state["strong"][row] = torch.eye(K)[GIVEN[row]]
    state["weak"][7] = state["strong"][7] = torch.eye(K)[(GIVEN[7] + 1) % K]
    method.choose(epoch_of(GIVEN, state, K, rows=ROWS))
    labeled = GIVEN >= 0
    unlike = torch.arange(N) != 7
    assert state["clean"][labeled & unlike].all()
    assert not state["clean"][7]
    assert (state["weak_threshold"] == torch.tensor(1 / N)).sum() == N - 3


def test_where_no_label_stands_the_last_sets_are_kept_and_the_thresholds_move() -> None:
    method = DISC(sigma=1.0)
    state = mid_run(method, 11)
    state["weak_threshold"] = state["strong_threshold"] = torch.full((N,), 0.9999)
    old = {name: tensor.clone() for name, tensor in state.items()}
    state["weak"], state["strong"] = state["weak"].clamp(max=0.9), state["strong"].clamp(max=0.9)
    epoch = epoch_of(GIVEN, state, K, rows=ROWS)
    method.choose(epoch)
    assert epoch.notes["kept_last_split"] == 1
    assert all(torch.equal(state[name], old[name]) for name in ("clean", "hard", "corrected", "labels"))
    assert (state["weak_threshold"] < 0.9999).sum() == (GIVEN[ROWS] >= 0).sum()


def main_step(method: DISC, state: dict[str, Tensor], rows: Tensor) -> tuple[dict[str, float], dict[str, Tensor]]:
    views = {"weak/0": random(20, len(rows), K), "strong/0": random(21, len(rows), K)}
    step = step_of({"labeled": (rows, GIVEN[rows], views)}, state, seed=5)
    return {name: value.item() for name, value in method.main_step(step).items()}, views


def test_a_step_trains_clean_hard_and_kept_rows_each_in_its_way() -> None:
    method = DISC(lambda_h=0.5, q=0.7, alpha=3.0)
    state = mid_run(method, 11)
    method.choose(epoch_of(GIVEN, state, K, rows=ROWS))
    rows = ROWS[GIVEN[ROWS] >= 0][:12]
    losses, views = main_step(method, state, rows)
    clean = hard = 0.0
    weak, strong = (views[name].double().numpy() for name in ("weak/0", "strong/0"))
    for i, row in enumerate(rows.tolist()):
        pair = [softmax(view[i])[GIVEN[row]] for view in (weak, strong)]
        clean += float(state["clean"][row]) * sum(-np.log(p) for p in pair) / 12
        hard += float(state["hard"][row]) * sum((1 - p**0.7) / 0.7 for p in pair) / 12
    kept = [
        i for i, row in enumerate(rows.tolist()) if any(state[name][row] for name in ("clean", "hard", "corrected"))
    ]
    assert 2 <= len(kept) < 12
    rng, mixed = np.random.default_rng(5), 0.0
    for view in (weak, strong):
        share = rng.beta(3.0, 3.0)
        share = max(share, 1 - share)
        for i, j in zip(kept, np.array(kept)[rng.permutation(len(kept))], strict=True):
            log_p = np.log(softmax(share * view[i] + (1 - share) * view[j]))
            a, b = (int(state["labels"][rows[step]]) for step in (i, j))
            mixed += -(share * log_p[a] + (1 - share) * log_p[b]) / len(kept)
    assert clean > 0
    assert hard > 0
    assert_allclose([losses["clean"], losses["hard"], losses["mixup"]], [clean, 0.5 * hard, mixed], rtol=1e-5)
    assert_allclose(state["weak"][rows], views["weak/0"].softmax(1), rtol=1e-6)
    assert_allclose(state["strong"][rows], views["strong/0"].softmax(1), rtol=1e-6)


def test_a_batch_of_which_nothing_is_kept_has_no_loss() -> None:
    method = DISC()
    state = fresh(method)
    state["clean"].zero_()
    losses, _ = main_step(method, state, torch.arange(5))
    assert losses == {"clean": 0.0, "hard": 0.0, "mixup": 0.0}


def test_two_equal_views_never_disagree() -> None:
    seen = Recorder()
    trainer = make_trainer(DISC(warm_up=1, m=0.5), plain_views=True, callback=seen)
    trainer.run()
    assert [line["stage"] for line in seen.lines] == ["warm-up", "main", "main", "main"]
    assert "notes" not in seen.lines[0]  # nothing has been predicted yet
    assert [line["notes"]["hard"] for line in seen.lines[1:]] == [0, 0, 0]
    assert 0 < seen.lines[3]["notes"]["clean"] < 1


def test_it_learns_the_clouds_and_corrects_labels() -> None:
    seen = Recorder()
    config = TrainConfig(epochs=12, batch_size=32, lr=0.05, ema=0.9)
    trainer = make_trainer(DISC(m=0.9, sigma=0.4), data=toy(120, noise=0.4, spread=0.5), config=config, callback=seen)
    trainer.run()
    used = seen.lines[-1]["selection"]["used"]
    assert seen.lines[-1]["test"]["raw"] > 90
    assert used["pseudo_accuracy_selected"] > 0.9 > used["labels_right_selected"] > used["labels_right_unselected"]


def test_published_settings() -> None:
    def build(kind: str, rate: float) -> DISC:
        method = published(Setting("cifar10", NoiseConfig(kind=kind, rate=rate))).build()  # type: ignore[arg-type]
        assert isinstance(method, DISC)
        return method

    assert build("symmetric", 0.5) == DISC(m=0.99, sigma=0.5, warm_up=20, reference_epochs=200)
    assert build("symmetric", 0.8) == DISC(m=0.95, lambda_h=0.2, sigma=0.5, warm_up=20, reference_epochs=200)
    assert build("asymmetric", 0.4) == DISC(m=0.95, sigma=0.5, warm_up=20, reference_epochs=200)
    assert build("instance", 0.2) == DISC(m=0.99, sigma=0.3, warm_up=15, reference_epochs=200)
    train = published(Setting("cifar100", NoiseConfig(kind="symmetric", rate=0.8))).train
    assert (train["optimizer"].value, train["late_momentum"].value) == ("adam", 0.1)


@pytest.mark.parametrize(
    ("field", "value"), [("m", 1.5), ("sigma", -0.1), ("q", 0.0), ("alpha", 0.0), ("alpha", math.inf)]
)
def test_what_makes_no_sense_is_refused(field: str, value: float) -> None:
    with pytest.raises(UserError, match=rf"method\.{field} is {value}, expected"):
        DISC(**{field: value})  # type: ignore[arg-type]
