"""SSR: relabeling, the choice of rows and the step against loops; SSR+ follows the weak view, not the reverse."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from engine.helpers import Recorder, make_trainer, network, toy
from numpy.testing import assert_allclose
from torch import Tensor, nn

from methods.by_hand import epoch_of, random, random_classes, step_of
from methods.reference import softmax
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.method_api import Network, Setting, Task
from pars.methods.ssr import SSR, balanced_rows, confirmed, published, published_plus
from pars.noise import NoiseConfig

N, K = 30, 4
GIVEN = random_classes(0, N, K)
GIVEN[:4] = -1  # unlabeled
ROWS = torch.tensor([i for i in range(N) if i % 5 != 2])  # the others are held out


def state_of(method: SSR) -> dict[str, Tensor]:
    return method.initial_state(Task(n_rows=N, n_classes=K, labels=GIVEN, epochs=3))


def by_loops(logits: Tensor, features: Tensor, theta_r: float, theta_s: float, k: int) -> tuple[list[int], list[bool]]:
    """Labels and choice of every row of ROWS, from the definitions."""
    labels = []
    for i in ROWS.tolist():
        p = softmax(logits[i].double().numpy())
        labels.append(int(p.argmax()) if p.max() > theta_r else int(GIVEN[i]))
    chosen = []
    directions = features[ROWS].double().numpy()
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for i, y in enumerate(labels):
        voters = sorted(
            (j for j, label in enumerate(labels) if label >= 0), key=lambda j: -directions[i] @ directions[j]
        )
        votes = [sum(labels[j] == c for j in voters[:k]) / max(1, labels.count(c)) for c in range(K)]
        chosen.append(y >= 0 and votes[y] / max(votes) >= theta_s)
    return labels, chosen


@pytest.mark.parametrize(("theta_r", "theta_s"), [(0.7, 1.0), (0.9, 0.6), (1.0, 0.0)])
def test_labels_and_choice_are_those_of_a_loop_over_rows(theta_r: float, theta_s: float) -> None:
    method, logits, features = SSR(theta_r=theta_r, theta_s=theta_s, k=6), random(1, N, K), random(2, N, 5)
    epoch = epoch_of(GIVEN, state_of(method), K, logits=[logits], features=features, rows=ROWS)
    method.choose(epoch)
    labels, chosen = by_loops(logits, features, theta_r, theta_s, 6)
    assert epoch.state["labels"][ROWS].tolist() == labels
    assert epoch.state["chosen"][ROWS].tolist() == chosen
    assert "kept_last_split" not in epoch.notes
    held_out = torch.tensor([i for i in range(N) if i % 5 == 2])
    assert not epoch.state["chosen"][held_out].any()
    assert_allclose(epoch.notes["chosen"], np.mean(chosen), rtol=1e-6)


def test_labels_are_made_anew_from_the_given_ones() -> None:
    method = SSR(theta_r=0.7, theta_s=0.0)
    state, features = state_of(method), random(2, N, 5)
    method.choose(epoch_of(GIVEN, state, K, logits=[random(1, N, K)], features=features, rows=ROWS))
    assert not torch.equal(state["labels"], GIVEN)
    method.choose(epoch_of(GIVEN, state, K, logits=[torch.zeros(N, K)], features=features, rows=ROWS))
    assert torch.equal(state["labels"], GIVEN)


def test_at_theta_s_one_a_tie_is_enough_and_less_is_not() -> None:
    votes = torch.tensor([[0.4, 0.4, 0.2], [0.4, 0.4, 0.2], [0.4, 0.3999, 0.2001], [0.4, 0.4, 0.2], [0.2, 0.2, 0.6]])
    labels = torch.tensor([0, 1, 1, 2, -1])
    assert confirmed(votes, labels, 1.0).tolist() == [True, True, False, False, False]
    assert confirmed(votes, labels, 0.5).tolist() == [True, True, True, True, False]


@pytest.mark.parametrize("before", ["nothing", "a split"])
def test_a_collapsed_network_leaves_the_last_choice(before: str) -> None:
    method = SSR(theta_r=0.9)
    state = state_of(method)
    if before == "a split":
        method.choose(epoch_of(GIVEN, state, K, logits=[random(1, N, K)], features=random(2, N, 5), rows=ROWS))
    old = {name: tensor.clone() for name, tensor in state.items()}
    one_class = torch.tensor([0.0, 50.0, 0.0, 0.0]).expand(N, K)
    epoch = epoch_of(GIVEN, state, K, logits=[one_class], features=torch.ones(N, 5), rows=ROWS)
    method.choose(epoch)
    assert epoch.notes["kept_last_split"] == 1
    assert torch.equal(state["labels"], old["labels"])
    if before == "a split":
        assert torch.equal(state["chosen"], old["chosen"])
    else:  # everything that has a label and is not held out
        assert state["chosen"].nonzero()[:, 0].tolist() == [i for i in ROWS.tolist() if GIVEN[i] >= 0]


def test_batches_are_of_chosen_rows_each_new_label_as_often_as_any() -> None:
    method = SSR(theta_r=0.7, k=6)
    state = state_of(method)
    method.choose(epoch_of(GIVEN, state, K, logits=[random(1, N, K)], features=random(2, N, 5), rows=ROWS))
    drawn = balanced_rows(state)
    assert set(drawn.tolist()) == set(state["chosen"].nonzero()[:, 0].tolist())
    counts = state["labels"][drawn].bincount()
    assert len(set(counts[counts > 0].tolist())) == 1


def test_a_step_is_cross_entropy_on_two_mixed_strong_views() -> None:
    views = {"strong/0": random(3, 5, K), "strong/1": random(4, 5, K)}
    rows, labels = torch.tensor([9, 3, 7, 0, 9]), random_classes(5, 10, K)
    state = {"labels": labels, "chosen": torch.ones(10, dtype=torch.bool)}
    step = step_of({"labeled": (rows, torch.full((5,), -1), views)}, state, seed=3)
    losses = SSR(alpha=2.0).step(step)
    rng = np.random.default_rng(3)
    share = rng.beta(2.0, 2.0)
    share = max(share, 1 - share)
    partners = rng.permutation(10)
    inputs = np.concatenate([view.double().numpy() for view in views.values()])
    new = labels[rows].tolist() * 2
    expected = []
    for i, j in enumerate(partners):
        log_p = np.log(softmax(share * inputs[i] + (1 - share) * inputs[j]))
        expected.append(-share * log_p[new[i]] - (1 - share) * log_p[new[j]])
    assert losses.keys() == {"ce"}
    assert_allclose(losses["ce"], np.mean(expected), rtol=1e-5)


def test_the_strong_view_predicts_the_weak_views_projection_and_not_the_reverse() -> None:
    method, module = SSR(lambda_fc=0.5), network()
    attached = nn.ModuleDict(dict(method.attachments(8, 3)))
    weak, strong = random(6, 7, 4).requires_grad_(), random(7, 7, 4).requires_grad_()
    views = {"weak/0": weak, "strong/0": strong, "strong/1": strong}
    rows = (torch.arange(7), torch.full((7,), -1), views)
    state = {"labels": random_classes(8, 7, 3), "chosen": torch.ones(7, dtype=torch.bool)}
    step = step_of({"labeled": rows, "all": rows}, state, net=Network(module, module, attached))
    loss = method.step(step)["fc"]
    torch.autograd.backward(loss)
    assert weak.grad is None
    assert strong.grad is not None
    assert strong.grad.abs().sum() > 0
    with torch.no_grad():
        features = [module.features(view) for view in (weak, strong)]  # type: ignore[operator]
        z, (p,) = attached["projector"](features[0]), [attached["predictor"](attached["projector"](features[1]))]
    cosines = [float(a @ b / (a.norm() * b.norm())) for a, b in zip(p.double(), z.double(), strict=True)]
    assert_allclose(loss.item(), -0.5 * np.mean(cosines), rtol=1e-4)
    assert [m.out_features for m in attached["projector"] if isinstance(m, nn.Linear)] == [256, 128]  # type: ignore[attr-defined]


def test_one_forward_of_both_strong_views_and_for_plus_one_of_each_view_of_all_rows() -> None:
    for method, expected in ((SSR(), (2 + 1 / 3)), (SSR(lambda_fc=1.0), 3 + 2 / 3)):
        trainer = make_trainer(method)
        trainer.run()
        assert_allclose(trainer.nets[0].backwards + trainer.nets[0].forwards / 3, 4 * 60 * expected, rtol=1e-6)


def test_ssr_has_nothing_attached_and_learns_the_clouds() -> None:
    seen = Recorder()
    data = toy(120, noise=0.5, spread=0.5)
    config = TrainConfig(epochs=8, batch_size=16, lr=0.1, ema=0.9)
    trainer = make_trainer(SSR(k=10), data=data, config=config, callback=seen)
    trainer.run()
    assert not trainer.nets[0].attached
    assert seen.lines[-1]["test"]["raw"] > 95
    assert seen.lines[-1]["selection"]["chosen"]["pseudo_accuracy"] > 0.85
    assert np.mean(data.train.labels == data.train.true_labels) < 0.75


def test_published_settings() -> None:
    many, few = (NoiseConfig(kind="symmetric", rate=rate) for rate in (0.5, 0.2))
    assert published(Setting("cifar100", many)).build() == SSR(theta_r=0.8, k=200)
    assert published_plus(Setting("cifar10", few)).build() == SSR(theta_r=0.9, k=200, lambda_fc=1.0)
    assert published(Setting("cifar10", many)).method["theta_r"].source == "recall"
    assert published(Setting()).build() == SSR()


@pytest.mark.parametrize(
    ("field", "value"), [("theta_r", 1.5), ("theta_s", -0.1), ("k", 0), ("alpha", 0.0), ("alpha", math.inf)]
)
def test_what_makes_no_sense_is_refused(field: str, value: float) -> None:
    with pytest.raises(UserError, match=rf"method\.{field} is {value}, expected"):
        SSR(**{field: value})  # type: ignore[arg-type]
