"""DivideMix: split, refined and guessed labels and the step against float64; what it is with parts switched off."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from engine.helpers import Recorder, assert_identical, make_trainer, toy, weights
from numpy.testing import assert_allclose
from sklearn.mixture import GaussianMixture
from torch import Tensor

from methods.by_hand import Rows, epoch_of, random, random_classes, step_of
from methods.reference import AsIs, Averaged, softmax
from methods.two_networks import alone
from pars.engine import TrainConfig, Trainer
from pars.errors import UserError
from pars.losses import class_balance, cross_entropy, reduce
from pars.method_api import Epoch, Losses, Method, Network, Setting, Stage, Step, Sweep, Task, ViewName
from pars.methods import by_name
from pars.methods.dividemix import DivideMix, published
from pars.methods.parts.loss_mixture import fit_gaussian_mixture
from pars.methods.parts.mixing import draw_mix
from pars.methods.parts.targets import one_hot
from pars.noise import NoiseConfig

N, K = 40, 4
GIVEN = random_classes(0, N, K)
GIVEN[:5] = -1
GIVEN[2::5] = -1  # held out: a method does not see their labels
USABLE = [i for i in range(N) if i % 5 != 2]
LABELED = [i for i in USABLE if GIVEN[i] >= 0]
SIX = TrainConfig(epochs=6, batch_size=16, lr=0.1, ema=0.9)


def fresh(method: DivideMix) -> dict[str, Tensor]:
    return method.initial_state(Task(n_rows=N, n_classes=K, labels=GIVEN, epochs=3))


def separable(seed: int) -> Tensor:
    """Logits by which about 60 % of the given labels have a small loss."""
    logits = random(seed, N, K, size=0.5)
    agree = torch.tensor(np.random.default_rng([seed, 3]).random(N) < 0.6)
    wanted = torch.where(agree, GIVEN, (GIVEN + 1) % K).clamp_min(0)
    return logits + 4 * one_hot(wanted, K)


def divided(method: DivideMix, state: dict[str, Tensor], logits: list[Tensor], index: int = 0) -> Epoch:
    """Each network has logits of its own."""
    first, second = (Network(AsIs(), AsIs()) for _ in range(2))

    def run_pass(net: Network, rows: Tensor, view: ViewName, index: int, *, features: bool) -> Sweep:
        return Sweep(logits[0 if net is first else 1][rows], None)

    epoch = epoch_of(GIVEN, state, K, rows=torch.tensor(USABLE))
    epoch = replace(epoch, nets=(first, second), index=index, run_pass=run_pass)
    method.divide(epoch)
    return epoch


def normalized_losses(logits: Tensor) -> list[float]:
    """Cross-entropies of the labeled rows, on 0..1."""
    losses = [-math.log(softmax(logits[i].double().numpy())[GIVEN[i]]) for i in LABELED]
    return [(loss - min(losses)) / (max(losses) - min(losses)) for loss in losses]


def posterior(losses: list[float]) -> list[float]:
    """scikit-learn's, with DivideMix' settings."""
    x = np.array(losses)[:, None]
    fit = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0).fit(x)
    out: list[float] = fit.predict_proba(x)[:, fit.means_.argmin()].tolist()
    return out


@pytest.mark.parametrize("use_unlabeled", [False, True])
def test_each_networks_losses_split_the_rows_of_the_other(use_unlabeled: bool) -> None:
    method, logits = DivideMix(use_unlabeled=use_unlabeled), [separable(1), separable(2)]
    state = fresh(method)
    divided(method, state, logits)
    assert state["clean_1"].ne(state["clean_2"]).any()
    (_, main) = method.stages(Task(n_rows=N, n_classes=K, labels=GIVEN, epochs=3))
    for own, (labeled, unlabeled) in enumerate((("labeled", "unlabeled"), ("labeled_2", "unlabeled_2"))):
        w = posterior(normalized_losses(logits[1 - own]))
        assert_allclose(state[f"clean_{2 - own}"][LABELED], w, atol=1e-3)
        pools = [main.draws[name].pool for name in (labeled, unlabeled)]
        found = [pool(state).tolist() for pool in pools if callable(pool)]
        assert found[0] == [i for i, p in zip(LABELED, w, strict=True) if p > 0.5]
        rest = [i for i, p in zip(LABELED, w, strict=True) if p <= 0.5]
        assert found[1] == sorted(rest + [i for i in USABLE if GIVEN[i] < 0 and use_unlabeled])
    clean = method.evidence(state)["clean"]
    assert_allclose(clean[LABELED], (state["clean_1"] + state["clean_2"])[LABELED] / 2)


def test_losses_are_averaged_over_the_last_epochs_of_the_stage() -> None:
    method = DivideMix(loss_epochs=3)
    state = fresh(method)
    seen: list[list[float]] = []
    for index in range(5):
        logits = random(10 + index, N, K, size=2.0)  # no clear split: w is between 0 and 1
        divided(method, state, [logits, separable(99)], index)
        seen.append(normalized_losses(logits))
        found = {
            length: fit_gaussian_mixture(torch.tensor(np.mean(seen[-length:], axis=0)), normalize=False).low
            for length in range(1, 6)
        }
        assert_allclose(state["clean_1"][LABELED], found[3], atol=1e-5)
    assert all((found[length] - found[3]).abs().max() > 0.05 for length in (1, 2, 4, 5))


@pytest.mark.parametrize("before", ["nothing", "a split"])
@pytest.mark.parametrize("what", ["equal losses", "one class"])
def test_a_mixture_that_finds_nothing_to_train_on_leaves_the_last_split(before: str, what: str) -> None:
    method = DivideMix()
    state = fresh(method)
    if before == "a split":
        divided(method, state, [separable(1), separable(2)])
    old = {name: tensor.clone() for name, tensor in state.items()}
    one_class = torch.tensor([0.0, 9.0, 0.0, 0.0]).expand(N, K)
    epoch = divided(method, state, [separable(3), torch.zeros(N, K) if what == "equal losses" else one_class])
    assert epoch.notes["kept_last_split_2"] == 1
    assert "kept_last_split_1" not in epoch.notes
    assert torch.equal(state["clean_2"], old["clean_2"])
    assert not torch.equal(state["clean_1"], old["clean_1"])
    if before == "nothing":
        assert method.labeled_rows(state, clean="clean_2").tolist() == [i for i in range(N) if GIVEN[i] >= 0]
        assert not len(method.unlabeled_rows(state, clean="clean_2"))


def test_networks_that_say_the_same_of_every_row_are_trained_on_all_labels() -> None:
    seen = Recorder()
    trainer = make_trainer(DivideMix(warm_up=0), config=replace(SIX, epochs=2), callback=seen)
    for net in trainer.nets:
        for parameter in net.module.parameters():
            torch.nn.init.zeros_(parameter)
    trainer.run()
    first = seen.lines[0]
    assert (first["notes"]["kept_last_split_1"], first["notes"]["kept_last_split_2"]) == (1, 1)
    assert first["selection"]["labeled_1"]["rows"] == 30  # half a batch: 30 of 60 rows an epoch
    assert "guessed_1" not in first["selection"]
    assert first["losses"]["unlabeled_1"] == 0
    assert all(math.isfinite(value) for line in seen.lines for value in line["losses"].values())


def hand_batches(seed: int) -> dict[str, Rows]:
    """Both networks' labeled and unlabeled rows, with two weak and two strong views each."""
    out: dict[str, Rows] = {}
    for number, (name, n) in enumerate((("labeled", 4), ("unlabeled", 3), ("labeled_2", 5), ("unlabeled_2", 4))):
        views = {
            f"{kind}/{index}": random(100 * seed + 10 * number + 2 * strong + index, n, K)
            for strong, kind in enumerate(("weak", "strong"))
            for index in range(2)
        }
        labels = random_classes(seed + number, n, K) if name.startswith("labeled") else torch.full((n,), -1)
        out[name] = (torch.arange(n) + 6 * number, labels, views)
    return out


def answer(own: int, row: Tensor) -> Any:
    """Probabilities by the first network, which copies its inputs, or by the second (`Averaged`)."""
    logits = row.double().numpy()
    return softmax(1.5 * np.roll(logits, 1) if own else logits)


def hand_step(seed: int, *, stage_progress: float = 0.1) -> tuple[Step, dict[str, Rows], dict[str, Tensor]]:
    batches = hand_batches(seed)
    state = {f"clean_{i}": torch.tensor(np.random.default_rng([seed, i]).random(30)) for i in (1, 2)}
    step = step_of(batches, state, seed=seed, stage_progress=stage_progress)
    return replace(step, nets=(Network(AsIs(), AsIs()), Network(Averaged(), AsIs()))), batches, state


@pytest.mark.parametrize("descent_view", ["weak", "strong"])
def test_a_step_is_mixmatch_with_refined_and_guessed_labels(descent_view: Any) -> None:
    step, batches, state = hand_step(5)
    method = DivideMix(lambda_u=20.0, ramp=0.4, lambda_r=0.7, T=0.5, alpha=3.0, descent_view=descent_view)
    losses = method.main_step(step)
    rng = np.random.default_rng(5)
    for own, (x_name, u_name) in enumerate((("labeled", "unlabeled"), ("labeled_2", "unlabeled_2"))):
        (rows, labels, x), (_, _, u) = batches[x_name], batches[u_name]
        refined, guessed = [], []
        for i in range(len(rows)):
            w = float(state[f"clean_{2 - own}"][rows[i]])  # by the other network
            p = (answer(own, x["weak/0"][i]) + answer(own, x["weak/1"][i])) / 2
            t = w * np.eye(K)[labels[i]] + (1 - w) * p
            refined.append(t**2 / (t**2).sum())
        for i in range(len(u["weak/0"])):
            p = sum(answer(net, u[f"weak/{view}"][i]) for net in (0, 1) for view in (0, 1)) / 4
            guessed.append(p**2 / (p**2).sum())
        targets = np.array([*refined, *refined, *guessed, *guessed])
        inputs = torch.cat([each[f"{descent_view}/{view}"] for each in (x, u) for view in (0, 1)])
        share = rng.beta(3, 3)
        share = max(share, 1 - share)
        n_labeled, n = 2 * len(rows), len(inputs)
        entropy = error = 0.0
        h = np.zeros(K)
        for i, j in enumerate(rng.permutation(n)):
            p = answer(own, share * inputs[i] + (1 - share) * inputs[j])
            t = share * targets[i] + (1 - share) * targets[j]
            h += p / n
            if i < n_labeled:
                entropy -= float((t * np.log(p)).sum()) / n_labeled
            else:
                error += float(((p - t) ** 2).sum()) / ((n - n_labeled) * K)
        assert_allclose(losses[f"labeled_{own + 1}"], entropy, rtol=1e-4)
        assert_allclose(losses[f"unlabeled_{own + 1}"], 20 * 0.25 * error, rtol=1e-4)
        assert_allclose(losses[f"balance_{own + 1}"], 0.7 * sum(np.log(1 / K / h)) / K, rtol=1e-3)
    # Own guesses of 2·(4+3) and 2·(5+4) views, the other network's of 2·4 and 2·3; trained on are 14 and 18.
    assert [(net.forwards, net.backwards) for net in step.nets] == [(14 + 8, 14), (18 + 6, 18)]


def test_unlabeled_rows_may_be_partners_only() -> None:
    step, _, _ = hand_step(6)
    losses = DivideMix(train_unlabeled=False).main_step(step)
    assert [net.backwards for net in step.nets] == [8, 10]
    assert losses["unlabeled_1"] == losses["unlabeled_2"] == 0
    other, _, _ = hand_step(6)
    whole = DivideMix().main_step(other)
    assert torch.equal(losses["labeled_1"], whole["labeled_1"])
    assert not torch.equal(losses["balance_1"], whole["balance_1"])


@pytest.mark.parametrize(("progress", "share"), [(0.0, 0.0), (0.05, 0.25), (0.2, 1.0), (0.9, 1.0)])
def test_the_weight_of_the_unlabeled_part_grows_linearly(progress: float, share: float) -> None:
    full = DivideMix(ramp=0.0).main_step(hand_step(7)[0])
    some = DivideMix(ramp=0.2).main_step(hand_step(7, stage_progress=progress)[0])
    assert_allclose(some["unlabeled_1"], share * full["unlabeled_1"], rtol=1e-6)
    assert torch.equal(some["labeled_2"], full["labeled_2"])


@dataclass(frozen=True, kw_only=True)
class Trusting(DivideMix):
    """Every label is clean for sure."""

    def divide(self, epoch: Epoch) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class TwoViewMixup(Method):
    """Mixup over two weak views of a batch, λ at least a half, and the class balance, for each of two networks."""

    networks = 2

    def stages(self, task: Task) -> tuple[Stage, ...]:
        # The batches of the method that it is compared with.
        return tuple(
            replace(stage, before_epoch=None, step=self.step) for stage in Trusting(warm_up=0, ratio=1.0).stages(task)
        )

    def initial_state(self, task: Task) -> dict[str, Tensor]:
        return Trusting().initial_state(task)

    def step(self, step: Step) -> Losses:
        losses: dict[str, Tensor] = {}
        for net, name in zip(step.nets, ("labeled", "labeled_2"), strict=True):
            batch = step.batches[name]
            views = torch.cat([batch.view("weak", 0), batch.view("weak", 1)])
            mix = draw_mix(step, len(views), 4.0, mostly_first=True)
            logits = net(mix(views))
            targets = one_hot(batch.labels.repeat(2), logits.shape[1])
            losses[f"mixup {name}"] = reduce.mean(cross_entropy(logits, mix(targets)))
            losses[f"balance {name}"] = class_balance(reduce.mean_probabilities(logits.softmax(dim=1)))
        return losses


def test_with_clean_labels_and_nothing_unlabeled_it_is_mixup_of_two_views_with_class_balance() -> None:
    ours = make_trainer(Trusting(warm_up=0, lambda_u=0.0, ratio=1.0), config=SIX)
    mixup = make_trainer(TwoViewMixup(), config=SIX)
    ours.run()
    mixup.run()
    assert_identical(weights(ours), weights(mixup))


def run_of(method: Method, **options: Any) -> Trainer:
    trainer = make_trainer(method, config=SIX, **options)
    trainer.run()
    return trainer


def test_the_warm_up_is_cross_entropy_of_each_network_on_batches_of_its_own() -> None:
    both = run_of(DivideMix(warm_up=6))
    plain = alone(0, SIX)
    plain.run()
    assert_identical(both.learners[0].tensors(0), plain.learners[0].tensors(0))
    other = alone(1, SIX)
    other.run()
    assert not torch.equal(other.nets[0].module.state_dict()["head.weight"], both.nets[1].module.head.weight)  # type: ignore[union-attr,arg-type]


def test_the_confidence_penalty_is_the_negative_entropy_in_the_warm_up() -> None:
    step, batches, _ = hand_step(8)
    losses = DivideMix(confidence_penalty=0.5).warm_up_step(step)
    for own, name in enumerate(("labeled", "labeled_2")):
        _, labels, views = batches[name]
        p = [answer(own, row) for row in views["weak/0"]]
        assert_allclose(
            losses[f"ce_{own + 1}"], np.mean([-np.log(q[y]) for q, y in zip(p, labels, strict=True)]), rtol=1e-5
        )
        assert_allclose(losses[f"penalty_{own + 1}"], 0.5 * np.mean([(q * np.log(q)).sum() for q in p]), rtol=1e-5)
    assert "penalty_1" not in DivideMix().warm_up_step(hand_step(8)[0])


def test_rows_that_never_had_a_label_are_used_by_the_plus_only() -> None:
    lines = []
    for name in ("dividemix", "dividemix+"):
        seen = Recorder()
        trainer = run_of(by_name(name), data=toy(unlabeled=20), callback=seen)
        never = trainer.feed.labels < 0
        assert (trainer.state["clean_1"][never] == (0 if name == "dividemix+" else -1)).all()
        lines.append(seen.lines[-1])
    assert lines[0]["losses"] != lines[1]["losses"]


@pytest.mark.parametrize("use_unlabeled", [False, True])
def test_most_labels_that_it_trusts_are_right(use_unlabeled: bool) -> None:
    seen = Recorder()
    config, method = replace(SIX, epochs=12), DivideMix(lambda_u=5.0, use_unlabeled=use_unlabeled)
    make_trainer(method, data=toy(240, spread=0.5, unlabeled=40), config=config, callback=seen).run()
    last = seen.lines[-1]
    assert last["test"]["raw"] > 90
    assert last["selection"]["labeled_1"]["labels_right_selected"] > 0.95


@pytest.mark.parametrize("field", ["T", "alpha", "ratio"])
@pytest.mark.parametrize("value", [0.0, math.inf, math.nan])
def test_what_makes_no_sense_is_refused(field: str, value: float) -> None:
    with pytest.raises(UserError, match=rf"method\.{field} is {value}, expected a number"):
        DivideMix(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-0.1, 1.0, math.nan])
def test_a_threshold_that_no_probability_exceeds_is_refused(value: float) -> None:
    with pytest.raises(UserError, match=rf"method\.p_threshold is {value}, expected a number from 0 up to, not includ"):
        DivideMix(p_threshold=value)


def test_losses_of_no_epoch_and_unknown_views_are_refused() -> None:
    with pytest.raises(UserError, match=r"method\.loss_epochs is 0, expected 1 to 1000 epochs"):
        DivideMix(loss_epochs=0)
    with pytest.raises(UserError, match=r"method\.descent_view is 'plain', expected one of 'weak', 'strong'"):
        DivideMix(descent_view="plain")  # type: ignore[arg-type]


def build(data: str, kind: str, rate: float) -> DivideMix:
    method = published(Setting(data, NoiseConfig(kind=kind, rate=rate))).build()  # type: ignore[arg-type]
    assert isinstance(method, DivideMix)
    return method


def test_published_settings() -> None:
    rates = (0.2, 0.5, 0.8, 0.9)
    assert [build("cifar10", "symmetric", rate).lambda_u for rate in rates] == [0, 25, 25, 50]
    assert [build("cifar100", "symmetric", rate).lambda_u for rate in rates] == [25, 150, 150, 150]
    assert [build("cifar10", "symmetric", rate).p_threshold for rate in rates] == [0.5, 0.5, 0.5, 0.6]
    assert [build("cifar100", "symmetric", rate).loss_epochs for rate in rates] == [1, 1, 1, 5]
    asymmetric = build("cifar10", "asymmetric", 0.4)
    assert (asymmetric.lambda_u, asymmetric.confidence_penalty, asymmetric.lambda_r) == (0, 1, 1)
    assert build("cifar10", "symmetric", 0.5).confidence_penalty == 0
    assert build("cifar100", "asymmetric", 0.4).lambda_u == 150
    assert (build("cifar10", "symmetric", 0.5).warm_up, build("cifar100", "symmetric", 0.5).warm_up) == (10, 30)
    recipe = published(Setting("cifar10", NoiseConfig(kind="symmetric", rate=0.5)))
    assert {cited.source for cited in recipe.method.values()} == {"code", "issue", "paper"}
    most_wrong = published(Setting("cifar10", NoiseConfig(kind="symmetric", rate=0.9))).method
    assert [name for name, cited in most_wrong.items() if cited.source == "issue"] == ["lambda_u", "p_threshold"]
    train = {name: cited.value for name, cited in recipe.train.items()}
    assert (train["epochs"], train["milestones"], train["lr"], train["weight_decay"]) == (301, (150 / 301,), 0.02, 5e-4)
    assert published(Setting("cifar10", NoiseConfig(kind="symmetric", rate=0.4))).method["lambda_u"].source == "ours"
