"""ProMix: what is trusted, targets, losses and priors of both networks against loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from engine.helpers import Recorder, make_trainer, toy
from numpy.testing import assert_allclose
from torch import Tensor, nn

from methods.by_hand import epoch_of, random, random_classes
from methods.reference import Array, softmax
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.method_api import Batch, Network, Setting, Step, Sweep, Task, ViewName
from pars.methods.promix import ProMix, fmix_mask, moved_prior, published
from pars.noise import NoiseConfig

N, K, D = 12, 3, 5
PRIORS = {"prior_1": [0.5, 0.3, 0.2], "unreliable_prior_1": [0.2, 0.2, 0.6]}
PRIORS |= {"prior_2": [0.1, 0.6, 0.3], "unreliable_prior_2": [0.4, 0.3, 0.3]}


class Linear(nn.Module):
    """A network whose features are its inputs."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.head = nn.Linear(D, K)
        with torch.no_grad():
            self.head.weight.copy_(random(seed, K, D, size=2.0))
            self.head.bias.copy_(random(seed + 1, K, size=0.5))

    def features(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(x)
        return out


def network(seed: int) -> Network:
    module = Linear(seed)
    return Network(module, module, nn.ModuleDict({"pseudo_head": Linear(seed + 10).head}))


def make_step(progress: float, small: dict[str, Tensor] | None = None) -> Step:
    views = {"weak": random(0, N, D), "strong": random(1, N, D)}
    batch = Batch(torch.arange(N), random_classes(2, N, K), lambda name, index: views[name])
    state = {name: torch.tensor(values) for name, values in PRIORS.items()}
    state |= small or {f"small_loss_{number}": torch.arange(N) % 3 == number for number in (1, 2)}
    nets = (network(20), network(40))
    return Step(nets, {"labeled": batch}, state, np.random.default_rng(5), 1, progress, progress)


def logits_of(linear: nn.Module, x: Array) -> Array:
    weight, bias = (p.detach().double().numpy() for p in linear.parameters())
    out: Array = x @ weight.T + bias
    return out


def expected_trust(m: ProMix, step: Step, number: int) -> tuple[list[bool], list[int]]:
    """Which rows, and which class, one row at a time."""
    x = step.batch.weak.double().numpy()
    p = [[softmax(row) for row in logits_of(net.module.head, x)] for net in step.nets]  # type: ignore[arg-type]
    own = p[number - 1]
    small, prior = step.state[f"small_loss_{number}"], step.state[f"prior_{number}"].double().numpy()
    given = step.batch.labels.tolist()
    trusted = [bool(small[i] or own[i][given[i]] > m.tau) for i in range(N)]
    targets = [given[i] if trusted[i] else int(np.argmax(np.log(own[i]) - m.alpha_pseudo * np.log(prior)))
               for i in range(N)]  # fmt: skip
    if step.progress >= m.expand_from:
        sure = [i for i in range(N) if not trusted[i] and min(p[0][i].max(), p[1][i].max()) > m.tau
                and p[0][i].argmax() == p[1][i].argmax()]  # fmt: skip
        sure.sort(key=lambda i: -(p[0][i].max() + p[1][i].max()))
        for i in sure[: max(0, math.floor(m.most * N) - sum(trusted))]:
            trusted[i] = True
    return trusted, targets


@pytest.mark.parametrize(("progress", "tau", "most"), [(0.1, 0.8, 0.9), (0.7, 0.8, 0.9), (0.7, 0.5, 0.6)])
def test_trusted_rows_and_their_classes(progress: float, tau: float, most: float) -> None:
    m, step = ProMix(tau=tau, most=most), make_step(progress)
    p = [net.module(step.batch.weak).detach().softmax(1) for net in step.nets]
    for number in (1, 2):
        logits = step.nets[number - 1].module(step.batch.weak).detach()
        trusted, targets = m.trust(step, p, number, logits)
        wanted, classes = expected_trust(m, step, number)
        assert trusted.tolist() == wanted
        assert targets.tolist() == classes
        assert 0 < sum(wanted) < N


def test_late_rows_are_added_up_to_the_largest_share() -> None:
    counts = {}
    for progress in (0.1, 0.9):
        step = make_step(progress, {f"small_loss_{n}": torch.arange(N) < 2 for n in (1, 2)})
        sure = torch.eye(K)[torch.arange(N) % K]
        p = [sure * 0.98 + 0.005, sure * 0.96 + 0.01]
        counts[progress] = int(ProMix(tau=0.9, most=0.5).trust(step, p, 1, p[0].log())[0].sum())
    given = step.batch.labels
    early = int(((torch.arange(N) < 2) | (given == torch.arange(N) % K)).sum())
    assert counts == {0.1: early, 0.9: max(early, 6)}


def by_hand(m: ProMix, step: Step, rng: np.random.Generator, number: int) -> dict[str, float]:
    """The losses of one network, in float64."""
    trusted, targets = expected_trust(m, step, number)
    net, prior = step.nets[number - 1], step.state[f"prior_{number}"].double().numpy()
    other = step.state[f"unreliable_prior_{number}"].double().numpy()
    weak, strong = step.batch.weak.double().numpy(), step.batch.strong.double().numpy()
    heads: list[Any] = [net.module.head, net.attached["pseudo_head"]]
    kept = [i for i in range(N) if trusted[i]]
    ramp = min(1.0, step.progress / m.ramp)

    def ce(head: nn.Module, x: Array, t: Array, of: Array) -> float:
        return float(-(t * np.log(softmax(logits_of(head, x) + m.alpha_debias * np.log(of)))).sum())

    def labels(i: int) -> Array:
        out: Array = np.eye(K)[targets[i]]
        return out

    mixes = []
    for alpha in (m.alpha, m.alpha):
        share = rng.beta(alpha, alpha)
        mixes.append((max(share, 1 - share), rng.permutation(len(kept)), np.full(D, max(share, 1 - share))))
    for alpha in (m.alpha_fmix, m.alpha_fmix):
        share, partner, noise = rng.beta(alpha, alpha), rng.permutation(len(kept)), None
        noise = rng.standard_normal(D)
        order = sorted(range(D), key=lambda f: -noise[f])[: round(share * D)]
        mixes.append((share, partner, np.array([float(f in order) for f in range(D)])))
    losses = {}
    for index, name in enumerate(("ce", "pseudo_ce")):
        total = float(np.mean([ce(heads[index], weak[i], labels(i), prior) for i in kept]))
        total += float(ramp * np.mean([ce(heads[index], strong[i], labels(i), prior) for i in kept]))
        for share, partner, mask in (mixes[index], mixes[index + 2]):
            for at, i in enumerate(kept):
                j = kept[partner[at]]
                target = share * labels(i) + (1 - share) * labels(j)
                loss = ce(heads[index], mask * weak[i] + (1 - mask) * weak[j], target, prior)
                total += ramp * loss / len(kept)
        losses[f"{name}_{number}"] = float(total)
    rest = [i for i in range(N) if not trusted[i]]
    if step.progress < m.beta_u_until:
        total = 0.0
        for i in rest:
            q = softmax(logits_of(heads[0], weak[i]) - m.alpha_pseudo * np.log(other)) ** (1 / m.T)
            q = q / q.sum()
            total += (ce(heads[1], weak[i], q, other) + ramp * ce(heads[1], strong[i], q, other)) / len(rest)
        losses[f"unreliable_{number}"] = m.beta_u * step.progress / m.beta_u_until * total
    return losses


@pytest.mark.parametrize("progress", [0.05, 0.2, 0.7])
def test_the_losses_and_priors_of_both_networks(progress: float) -> None:
    m, step = ProMix(tau=0.8, ramp=0.1), make_step(progress)
    rng = np.random.default_rng(5)
    expected = by_hand(m, step, rng, 1) | by_hand(m, step, rng, 2)
    priors = {}
    for number in (1, 2):
        trusted, _ = expected_trust(m, step, number)
        p = [softmax(row) for row in logits_of(step.nets[number - 1].module.head, step.batch.weak.double().numpy())]  # type: ignore[arg-type]
        for name, inside in (("prior", True), ("unreliable_prior", False)):
            mean = np.mean([p[i] for i in range(N) if trusted[i] is inside], axis=0)
            priors[f"{name}_{number}"] = 0.9 * np.array(PRIORS[f"{name}_{number}"]) + 0.1 * mean
    losses = m.main_step(step, memory=0.9)
    assert losses.keys() == expected.keys()
    for name, value in expected.items():
        assert_allclose(losses[name].item(), value, rtol=1e-4, err_msg=name)
    for name, prior in priors.items():
        assert_allclose(step.state[name], prior, rtol=1e-5)


@pytest.mark.parametrize("trusts", [True, False])
def test_a_step_in_which_all_or_no_rows_are_trusted_is_finite(trusts: bool) -> None:
    small = {f"small_loss_{number}": torch.full((N,), trusts) for number in (1, 2)}
    step = make_step(0.1, small)
    losses = ProMix(tau=1.0).main_step(step, memory=0.9)
    assert all(math.isfinite(loss.item()) for loss in losses.values())
    unchanged = "unreliable_prior_1" if trusts else "prior_1"
    assert_allclose(step.state[unchanged], PRIORS[unchanged])


def test_the_smallest_losses_of_each_class_are_trusted_by_each_network_alone() -> None:
    given = torch.tensor([0] * 9 + [1] * 2 + [2] * 10 + [-1] * 3)
    logits = [random(1, 24, K), random(2, 24, K)]
    nets = (network(0), network(1))

    def run_pass(net: Network, rows: Tensor, view: ViewName, index: int, *, features: bool) -> Sweep:
        return Sweep(logits[nets.index(net)][rows], None)

    m = ProMix(rho=0.5)
    epoch = epoch_of(given, m.initial_state(Task(24, K, given, 5)), K)
    epoch.nets, epoch.run_pass = nets, run_pass
    m.choose(epoch)
    count = math.ceil(0.5 * 21 / 3)
    for number in (1, 2):
        expected: set[int] = set()
        for k in range(K):
            loss = {i: -math.log(softmax(logits[number - 1][i].double().numpy())[k]) for i in range(24)}
            expected |= set(sorted((i for i in range(24) if given[i] == k), key=lambda i: loss[i])[:count])
        assert set(epoch.state[f"small_loss_{number}"].nonzero()[:, 0].tolist()) == expected


@pytest.mark.parametrize("value", [0.0, math.nan])
def test_losses_that_tell_nothing_leave_the_last_choice(value: float) -> None:
    given = torch.tensor([0] * 4 + [1] * 4 + [2] * 4)
    logits = random(1, 12, K)
    m = ProMix(rho=0.5)
    epoch = epoch_of(given, m.initial_state(Task(12, K, given, 5)), K)
    epoch.nets = (network(0), network(1))

    def run_pass(net: Network, rows: Tensor, view: ViewName, index: int, *, features: bool) -> Sweep:
        return Sweep(logits[rows], None)

    epoch.run_pass = run_pass
    m.choose(epoch)
    before = epoch.state["small_loss_1"].clone()
    assert before.sum() == 6
    logits = torch.full((12, K), value)  # every class is as likely, or nothing is known
    m.choose(epoch)
    assert torch.equal(epoch.state["small_loss_1"], before)
    assert epoch.notes["kept_last_split_1"] == epoch.notes["kept_last_split_2"] == 1


def test_a_prior_moves_by_its_share_and_stays_without_rows() -> None:
    prior, p = torch.tensor([0.5, 0.25, 0.25]), random(0, 4, 3).softmax(1)
    mask = torch.tensor([True, False, True, False])
    assert_allclose(moved_prior(prior, p, mask, 0.8), 0.8 * prior + 0.1 * (p[0] + p[2]), rtol=1e-6)
    assert torch.equal(moved_prior(prior, p, torch.zeros(4, dtype=torch.bool), 0.8), prior)


def test_masks_are_smooth_over_pixels() -> None:
    """Neighboring pixels of a mask mostly have the same value; of random pixels half would differ."""
    rng = np.random.default_rng(0)
    masks = [fmix_mask(rng, (3, 16, 16), 0.5) for _ in range(20)]
    assert all(mask.shape == (16, 16) and mask.sum() == 128 for mask in masks)
    differ = np.mean([np.abs(np.diff(mask, axis=1)).mean() for mask in masks])
    assert differ < 0.2
    assert len({mask.tobytes() for mask in masks}) == 20


def test_the_priors_move_as_far_in_a_short_run_as_in_the_published_one() -> None:
    """0.9999 a step, 196 steps in each of 600 epochs, is left of the first prior; so it is after 10 epochs of 7."""
    m = published(Setting()).build()
    main = m.stages(Task(n_rows=70, n_classes=K, labels=torch.arange(70) % K, epochs=10, steps=7))[1]
    memory = main.step.keywords["memory"]  # type: ignore[attr-defined]
    assert_allclose(memory ** (10 * 7), 0.9999 ** (600 * 196), rtol=1e-6)


def test_it_learns_the_clouds_and_trusts_right_labels() -> None:
    seen = Recorder()
    config = TrainConfig(epochs=12, batch_size=32, lr=0.05, ema=0.9)
    trainer = make_trainer(
        published(Setting()).build(), data=toy(120, noise=0.4, spread=0.5), config=config, callback=seen
    )
    trainer.run()
    line = seen.lines[-1]
    assert line["test"]["raw"] > 90
    trusted = line["selection"]["trusted_1"]
    assert trusted["labels_right_selected"] > 0.9 > trusted["labels_right_unselected"]


def test_published_settings() -> None:
    def rho(kind: str, rate: float) -> tuple[float, str]:
        cited = published(Setting("cifar10", NoiseConfig(kind=kind, rate=rate))).method["rho"]  # type: ignore[arg-type]
        return cited.value, cited.source

    assert (rho("symmetric", 0.2), rho("symmetric", 0.5)) == ((0.7, "code"), (0.5, "code"))
    assert (rho("symmetric", 0.9), rho("instance", 0.2)) == ((0.2, "ours"), (0.7, "issue"))
    assert (rho("asymmetric", 0.4), rho("pair", 0.4)) == ((0.5, "code"), (0.5, "ours"))
    assert rho("symmetric", 0.3) == (0.7, "ours")
    hundred = published(Setting("cifar100"))
    assert (hundred.method["warm_up"].value, hundred.method["tau"].value) == (30, 0.95)


@pytest.mark.parametrize(("field", "value"), [("tau", 1.5), ("rho", -0.1), ("alpha", 0.0), ("reference_epochs", 0)])
def test_impossible_settings_are_refused(field: str, value: float) -> None:
    with pytest.raises(UserError, match=rf"method\.{field} is "):
        ProMix(**{field: value})  # type: ignore[arg-type]
