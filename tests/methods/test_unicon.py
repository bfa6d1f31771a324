"""UNICON: divergences, the split and the step of both networks against loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from engine.helpers import Recorder, assert_identical, make_trainer, network, toy
from numpy.testing import assert_allclose
from torch import Tensor, nn

from methods.by_hand import epoch_of, random, random_classes
from methods.reference import Array, softmax
from methods.two_networks import assert_each_is_trained_alone
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.method_api import Batch, Epoch, Network, Setting, Step, Sweep, Task, ViewName
from pars.methods.unicon import (
    UNICON,
    contrastive_loss,
    label_divergence,
    published,
    rest_rows,
    trusted_rows,
)
from pars.noise import NoiseConfig

N, K = 40, 4
GIVEN = random_classes(0, N, K)
GIVEN[:4] = -1  # unlabeled
ROWS = torch.tensor([i for i in range(N) if i % 5 != 2])  # the others are held out
LABELED = [i for i in ROWS.tolist() if GIVEN[i] >= 0]


class Times(nn.Module):
    """A network whose logits are its inputs, times a number of its own."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


NETS = (Network(Times(1.0), Times(1.0)), Network(Times(0.5), Times(0.5)))


def fresh(method: UNICON) -> dict[str, Tensor]:
    known = torch.full_like(GIVEN, -1).index_copy_(0, ROWS, GIVEN[ROWS])  # the engine hides held-out labels
    return method.initial_state(Task(n_rows=N, n_classes=K, labels=known, epochs=3))


def before_epoch(logits: Sequence[Tensor], state: dict[str, Tensor]) -> Epoch:
    """Each network has logits of its own."""

    def run_pass(net: Network, rows: Tensor, view: ViewName, index: int, *, features: bool) -> Sweep:
        return Sweep(logits[0 if net is NETS[0] else 1][rows], None)

    epoch = epoch_of(GIVEN, state, K, rows=ROWS)
    epoch.nets, epoch.run_pass = NETS, run_pass
    return epoch


def divergence(p: Array, y: int) -> float:
    """½ KL(p ‖ m) + ½ KL(e_y ‖ m), term by term."""
    e = np.eye(len(p))[y]
    m = (p + e) / 2

    def kl(a: Array) -> float:
        return float(sum(a_k * math.log(a_k / m_k) for a_k, m_k in zip(a, m, strict=True) if a_k > 0))

    return (kl(p) + kl(e)) / 2


def test_the_divergence_of_a_label_is_jensen_shannons() -> None:
    p = random(0, 20, K, size=5).softmax(1)
    labels = random_classes(1, 20, K)
    expected = [divergence(row.double().numpy(), int(y)) for row, y in zip(p, labels, strict=True)]
    assert_allclose(label_divergence(p, labels), expected, rtol=1e-5, atol=1e-7)


def test_every_class_has_as_many_trusted_rows_and_they_diverge_least() -> None:
    logits = [random(1, N, K, size=4), random(2, N, K, size=4)]
    method = UNICON()
    epoch = before_epoch(logits, fresh(method))
    method.choose(epoch)
    d = {}
    for i in LABELED:
        p = sum(softmax(each[i].double().numpy()) for each in logits) / 2
        d[i] = divergence(np.asarray(p), int(GIVEN[i]))
    cut = sum(d.values()) / len(d)
    share = sum(value < cut for value in d.values()) / len(d)
    count = math.floor(share * len(d) / K)
    expected: set[int] = set()
    for k in range(K):
        own = sorted((i for i in LABELED if GIVEN[i] == k), key=lambda i: d[i])
        expected |= set(own[:count])
    assert 1 < count < len(LABELED) / K
    assert set(trusted_rows(epoch.state).tolist()) == expected
    assert set(rest_rows(epoch.state).tolist()) == set(ROWS.tolist()) - expected  # also those without a label
    assert_allclose([epoch.state["divergence"][i] for i in LABELED], [d[i] for i in LABELED], rtol=1e-5, atol=1e-7)
    assert_allclose(epoch.state["trusted_share"], len(expected) / len(LABELED))


def test_above_d_u_the_cut_is_lowered() -> None:
    logits = [random(1, N, K, size=4), random(2, N, K, size=4)]
    p = np.mean([[softmax(each[i].double().numpy()) for i in LABELED] for each in logits], axis=0)
    d = np.array([divergence(row, int(GIVEN[i])) for row, i in zip(p, LABELED, strict=True)])
    for d_u, cut in ((0.7, d.mean()), (0.1, d.mean() - (d.mean() - d.min()) / 2)):
        epoch = before_epoch(logits, fresh(UNICON()))
        UNICON(d_u=d_u, tau=2.0).choose(epoch)
        assert_allclose(epoch.notes["below_cut"], np.mean(d < cut))
    assert 0 < np.mean(d < cut) < np.mean(d < d.mean())


@pytest.mark.parametrize("what", [0.0, math.nan])
def test_where_all_rows_diverge_alike_the_last_split_stays(what: float) -> None:
    method, state = UNICON(), fresh(UNICON())
    method.choose(before_epoch([random(1, N, K), random(2, N, K)], state))
    old = {name: tensor.clone() for name, tensor in state.items()}
    epoch = before_epoch([torch.full((N, K), what)] * 2, state)
    method.choose(epoch)
    assert epoch.notes["kept_last_split"] == 1
    assert_identical(state, old)


def test_before_the_first_split_all_labeled_rows_are_trusted_and_guessed_where_there_are_no_others() -> None:
    given = GIVEN[4:]
    state = UNICON().initial_state(Task(n_rows=len(given), n_classes=K, labels=given, epochs=3))
    assert trusted_rows(state).tolist() == rest_rows(state).tolist() == list(range(len(given)))


def test_the_contrastive_loss_is_simclrs() -> None:
    z = random(4, 10, 6)
    unit = z.double().numpy() / np.linalg.norm(z.double().numpy(), axis=1, keepdims=True)
    expected = []
    for i in range(10):
        other = i + 5 if i < 5 else i - 5
        scores = {j: math.exp(float(unit[i] @ unit[j]) / 0.3) for j in range(10) if j != i}
        expected.append(-math.log(scores[other] / sum(scores.values())))
    assert_allclose(contrastive_loss(z, 0.3), expected, rtol=1e-4)


def test_the_step_of_each_network_refines_and_guesses_labels_and_mixes_strong_views() -> None:
    sizes = {"trusted_1": 4, "rest_1": 3, "trusted_2": 3, "rest_2": 5}
    views, batches = {}, {}
    for seed, (name, size) in enumerate(sizes.items()):
        views[name] = {
            f"{view}/{i}": random(10 * seed + 2 * i + (view == "strong"), size, K)
            for view in ("weak", "strong")
            for i in range(2)
        }
        labels = random_classes(seed, size, K)
        rows, own = torch.arange(5 * seed, 5 * seed + size), views[name]
        batches[name] = Batch(rows, labels, lambda view, index, own=own: own[f"{view}/{index}"])  # type: ignore[misc]
    batches["labeled"] = batches["trusted_1"]
    d = random(50, 25).abs() / 4
    state = {"divergence": d, "trusted": torch.ones(25, dtype=torch.bool)}
    step = Step(NETS, batches, state, np.random.default_rng(3), epoch=2, progress=0.3, stage_progress=0.02)
    for net in NETS:
        net.forwards = net.backwards = 0
    losses = UNICON(lambda_c=0.0, lambda_u=20.0, ramp=0.1, alpha=2.0, T=0.5, d_refine=0.4).mixmatch_step(step)

    rng = np.random.default_rng(3)
    for number, factor, other in ((1, 1.0, 0.5), (2, 0.5, 1.0)):
        x, u = batches[f"trusted_{number}"], batches[f"rest_{number}"]
        array = {
            (part, key): value.double().numpy()
            for part in ("trusted", "rest")
            for key, value in views[f"{part}_{number}"].items()
        }
        targets = []
        for i, (row, y) in enumerate(zip(x.rows.tolist(), x.labels.tolist(), strict=True)):
            p = np.mean([softmax(factor * array["trusted", f"weak/{v}"][i]) for v in range(2)], axis=0)
            w = 1.0 if d[row] < 0.4 else 1 - float(d[row])
            t = (w * np.eye(K)[y] + (1 - w) * p) ** 2
            targets.append(t / t.sum())
        guesses = []
        for i in range(len(u)):
            q = [softmax(f * array["rest", f"weak/{v}"][i]) for v in range(2) for f in (factor, other)]
            square = np.mean(q, axis=0) ** 2
            guesses.append(square / square.sum())
        share = rng.beta(2.0, 2.0)
        share = max(share, 1 - share)
        inputs = np.concatenate([array[part, f"strong/{v}"] for part in ("trusted", "rest") for v in range(2)])
        wanted = np.concatenate([targets, targets, guesses, guesses])
        entropy = error = 0.0
        mean = np.zeros(K)
        for i, j in enumerate(rng.permutation(len(inputs))):
            p = softmax(factor * (share * inputs[i] + (1 - share) * inputs[j]))
            t = share * wanted[i] + (1 - share) * wanted[j]
            mean += p / len(inputs)
            if i < 2 * len(x):
                entropy += float((-t * np.log(p)).sum()) / (2 * len(x))
            else:
                error += float(((p - t) ** 2).mean()) / (2 * len(u))
        assert_allclose(losses[f"trusted_{number}"], entropy, rtol=1e-5)
        assert_allclose(losses[f"guessed_{number}"], 20 * 0.2 * error, rtol=1e-5)
        assert_allclose(losses[f"balance_{number}"], -np.log(K * mean).sum() / K, rtol=1e-4)
        guessed = step.selections[f"guessed_{number}"].predicted
        assert guessed.tolist() == [int(np.argmax(q)) for q in guesses]
    assert [net.backwards for net in NETS] == [14, 16]
    assert [net.forwards for net in NETS] == [2 * (4 + 3 + 5), 2 * (3 + 5 + 3)]


def test_features_of_the_other_rows_are_told_apart_in_their_strong_views() -> None:
    module, projection = network(seed=1, batch_norm=False), nn.Linear(8, 6)
    attached = nn.ModuleDict({"projection": projection})
    views = {f"{name}/{i}": random(10 * i + (name == "strong"), 5, 4) for name in ("weak", "strong") for i in range(2)}
    x, u = (
        Batch(torch.arange(5) + at, random_classes(at, 5, 3), lambda name, index: views[f"{name}/{index}"])
        for at in (0, 5)
    )
    state = {"divergence": torch.zeros(10), "trusted": torch.ones(10, dtype=torch.bool)}
    net = Network(module, module, attached)
    step = Step((net, net), {"labeled": x}, state, np.random.default_rng(3), epoch=2, progress=0.3, stage_progress=0.2)
    found = UNICON(lambda_c=0.5, temperature=0.3).losses(step, net, net, x, u)["contrast"]
    hidden: Any = module
    projected = [projection(hidden.features(views[f"strong/{i}"])) for i in range(2)]
    assert_allclose(found.item(), 0.5 * contrastive_loss(torch.cat(projected), 0.3).mean().item(), rtol=1e-5)
    torch.autograd.backward(found)
    assert projection.weight.grad is not None
    assert any(parameter.grad is not None and parameter.grad.any() for parameter in module.parameters())


def test_the_whole_run_as_warm_up_trains_each_network_alone() -> None:
    class Renamed(UNICON):
        """The projections of the two networks are no part of what is compared."""

        def attachments(self, n_features: int, n_classes: int) -> dict[str, nn.Module]:
            return {}

    config = TrainConfig(epochs=4, batch_size=16, lr=0.1, ema=0.9)
    assert_each_is_trained_alone(make_trainer(Renamed(warm_up_share=1.0), config=config))


def test_it_learns_the_clouds_and_trusts_right_labels() -> None:
    seen = Recorder()
    config = TrainConfig(epochs=12, batch_size=32, lr=0.05, ema=0.9)
    trainer = make_trainer(UNICON(lambda_u=5.0), data=toy(120, noise=0.4, spread=0.5), config=config, callback=seen)
    trainer.run()
    line = seen.lines[-1]
    assert line["test"]["raw"] > 90
    trusted, true = trainer.state["trusted"].numpy(), trainer.data.train.true_labels
    assert true is not None
    right = trainer.data.train.labels == true
    assert right[trusted].mean() > 0.9 > right.mean()
    assert math.isfinite(line["losses"]["contrast_1"])


def test_without_the_rest_only_trusted_rows_are_trained_on() -> None:
    seen = Recorder()
    config = TrainConfig(epochs=6, batch_size=32, lr=0.05, ema=0.9)
    trainer = make_trainer(
        UNICON(train_rest=False, warm_up=1), data=toy(120, noise=0.4, spread=0.5), config=config, callback=seen
    )
    trainer.run()
    assert set(seen.lines[-1]["losses"]) == {"trusted_1", "balance_1", "trusted_2", "balance_2"}
    assert set(seen.lines[-1]["selection"]) == {"trusted_1", "trusted_2"}
    assert 0 < float(trainer.state["trusted_share"]) < 1
    assert published(Setting("clothing1m")).build() == UNICON(
        train_rest=False, alpha=0.5, warm_up=0, warm_up_entropy=0.0
    )


def test_published_settings() -> None:
    def build(kind: str, rate: float) -> UNICON:
        method = published(Setting("cifar10", NoiseConfig(kind=kind, rate=rate))).build()  # type: ignore[arg-type]
        assert isinstance(method, UNICON)
        return method

    assert (build("symmetric", 0.5).rest_ratio, build("symmetric", 0.9).rest_ratio) == (0.5, 1.0)
    assert (build("symmetric", 0.5).warm_up_entropy, build("asymmetric", 0.4).warm_up_entropy) == (0.0, 1.0)
    assert published(Setting("cifar100")).method["warm_up"].value == 30
    train = {name: cited.value for name, cited in published(Setting("clothing1m")).train.items()}
    assert (train["epochs"], train["steps_per_epoch"] * train["batch_size"]) == (200, 32_000)


@pytest.mark.parametrize(("field", "value"), [("T", 0.0), ("lambda_u", -1.0), ("ramp", 2.0), ("rest_ratio", 0.0)])
def test_impossible_settings_are_refused(field: str, value: float) -> None:
    with pytest.raises(UserError, match=rf"method\.{field} is "):
        UNICON(**{field: value})  # type: ignore[arg-type]
