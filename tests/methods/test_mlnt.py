"""MLNT against copies of a network, one per set of synthetic labels, and against double backward, in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from engine.helpers import assert_identical, make_trainer, network, toy, weights
from numpy.testing import assert_allclose
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

from pars.engine import TrainConfig, Trainer, network_cost
from pars.errors import UserError
from pars.losses import cross_entropy, reduce
from pars.method_api import Batch, Losses, Method, Network, Setting, Stage, Step, Task
from pars.methods import mlnt
from pars.methods.mlnt import MLNT, meta_gradient, published
from pars.models import ModelConfig, build_model

# torch.func scripts formulas of its own when vmap is first used.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
TASK = Task(n_rows=60, n_classes=3, labels=torch.zeros(60, dtype=torch.int64), epochs=60)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def convolutional() -> tuple[nn.Module, Tensor]:
    return build_model(ModelConfig(name="small_cnn", width=2), (1, 8, 8), 3, seed=0), random(6, 1, 8, 8)


def flat() -> tuple[nn.Module, Tensor]:
    return network(seed=3), random(6, 4)


class Problem:
    """A network, a batch, two sets of synthetic labels, and a teacher's probabilities."""

    def __init__(self, make: Callable[[], tuple[nn.Module, Tensor]]) -> None:
        self.module, self.view = make()
        self.labels = torch.tensor([0, 1, 2, 2, 1, 0])
        self.sets = torch.tensor([[0, 1, 2, 0, 1, 1], [2, 1, 2, 2, 0, 0]])
        self.teacher = random(6, 3, seed=1).softmax(dim=1)

    def kl(self, logits: Tensor) -> Tensor:
        """KL(teacher ‖ p), the mean over rows and classes."""
        t = self.teacher.double()
        return (t * (t.log() - logits.log_softmax(1))).mean()

    def by_copies(self, a: float) -> dict[str, Tensor]:
        """First order: each copy takes its step, and its own gradient there is the answer."""
        total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in self.module.named_parameters()}
        for labels in self.sets:
            mine = copy.deepcopy(self.module).double().train()
            optimizer = torch.optim.SGD(mine.parameters(), lr=a)
            torch.autograd.backward(F.cross_entropy(mine(self.view.double()), labels))
            optimizer.step()
            optimizer.zero_grad()
            torch.autograd.backward(self.kl(mine(self.view.double())))
            for name, p in mine.named_parameters():
                assert p.grad is not None
                total[name] += p.grad / len(self.sets)
        return total

    def by_double_backward(self, a: float) -> dict[str, Tensor]:
        """Second order: autograd through the step."""
        module = copy.deepcopy(self.module).double().train()
        parameters, total = dict(module.named_parameters()), torch.zeros((), dtype=torch.float64)
        for labels in self.sets:
            loss = F.cross_entropy(module(self.view.double()), labels)
            gradients = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
            stepped = {name: p - a * g for (name, p), g in zip(parameters.items(), gradients, strict=True)}
            total = total + self.kl(functional_call(module, stepped, (self.view.double(),))) / len(self.sets)
        return dict(zip(parameters, torch.autograd.grad(total, list(parameters.values())), strict=True))


def assert_same_gradients(ours: dict[str, Tensor], exact: dict[str, Tensor]) -> None:
    largest = max(float(g.abs().max()) for g in exact.values())
    for name, gradient in exact.items():
        assert_allclose(ours[name], gradient, rtol=1e-3, atol=1e-5 * largest, err_msg=name)


@pytest.fixture(params=[mlnt.one_by_one, mlnt.all_at_once])
def over_sets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways through the sets, that of a CPU and that of other devices."""
    monkeypatch.setattr(mlnt, "one_by_one", request.param)


@pytest.mark.usefixtures("over_sets")
@pytest.mark.parametrize("make", [flat, convolutional])
def test_the_first_order_gradient_is_that_of_copies_after_their_steps(make: Any) -> None:
    p = Problem(make)
    gradient, _ = meta_gradient(p.module, p.view, p.sets, p.teacher, a=0.5, second_order=False)
    assert_same_gradients(gradient, p.by_copies(0.5))


@pytest.mark.usefixtures("over_sets")
@pytest.mark.parametrize("make", [flat, convolutional])
def test_the_second_order_gradient_is_that_of_double_backward(make: Any) -> None:
    p = Problem(make)
    gradient, _ = meta_gradient(p.module, p.view, p.sets, p.teacher, a=0.5, second_order=True)
    exact, first = p.by_double_backward(0.5), p.by_copies(0.5)
    assert_same_gradients(gradient, exact)
    assert not torch.allclose(exact["head.weight"], first["head.weight"], rtol=0.01)


def test_running_averages_do_not_see_the_meta_gradient() -> None:
    p = Problem(convolutional)
    before = copy.deepcopy(p.module.state_dict())
    meta_gradient(p.module, p.view, p.sets, p.teacher, a=0.5, second_order=False)
    assert_identical(p.module.state_dict(), before)
    assert all(parameter.grad is None for parameter in p.module.parameters())


def meta_step_of(method: MLNT, p: Problem, *, progress: float = 1.0, seed: int = 0) -> Step:
    net = Network(p.module, copy.deepcopy(p.module).requires_grad_(False))
    batch = Batch(torch.arange(6), p.labels, lambda *_: p.view)
    state = {"features": random(6, 5, seed=2)}
    return Step((net,), {"labeled": batch}, state, np.random.default_rng(seed), 0, 0.5, progress)


def test_a_step_follows_cross_entropy_and_the_weighted_meta_gradient() -> None:
    method, p = MLNT(a=0.5, M=2, eta=0.3, neighbors=3), Problem(flat)
    step = meta_step_of(method, p)
    p.sets = method.synthetic_labels(meta_step_of(method, p))  # the same draws
    p.teacher = copy.deepcopy(p.module)(p.view).detach().softmax(dim=1)
    exact = p.by_copies(0.5)
    plain = copy.deepcopy(p.module).double()
    torch.autograd.backward(F.cross_entropy(plain(p.view.double()), p.labels))
    losses = method.meta_step(step)
    torch.autograd.backward(sum(losses.values(), torch.zeros(())))
    found = {name: q.grad for name, q in p.module.named_parameters() if q.grad is not None}
    expected = {name: q.grad + 0.3 * exact[name] for name, q in plain.named_parameters() if q.grad is not None}
    assert found.keys() == expected.keys()
    assert_same_gradients(found, expected)
    stepped = []
    for labels in p.sets:
        mine = copy.deepcopy(p.module).double()
        optimizer = torch.optim.SGD(mine.parameters(), lr=0.5)
        optimizer.zero_grad()
        torch.autograd.backward(F.cross_entropy(mine(p.view.double()), labels))
        optimizer.step()
        stepped.append(float(p.kl(mine(p.view.double()).detach())))
    assert_allclose(losses["meta"].item(), 0.3 * np.mean(stepped), rtol=1e-4)


@pytest.mark.parametrize(
    ("progress", "weight"), [(0.05, None), (0.1, math.exp(-5 * 0.75**2)), (0.2, math.exp(-5 * 0.25)), (0.9, 1.0)]
)
def test_the_meta_loss_begins_late_and_grows(progress: float, weight: float | None) -> None:
    method, p = MLNT(M=2, eta=0.4, ramp=0.4, start=0.1), Problem(flat)
    found = method.meta_step(meta_step_of(method, p, progress=progress))
    full = method.meta_step(meta_step_of(method, p))
    assert ("meta" in found) == (weight is not None)
    if weight is not None:
        assert_allclose(found["meta"].item(), weight * full["meta"].item(), rtol=1e-4)


def test_synthetic_labels_are_those_of_near_rows_of_the_batch() -> None:
    method, n = MLNT(M=4, rho=0.4, neighbors=3), 9
    labels, features = torch.arange(n), random(20, 6)
    rows = torch.arange(20).flip(0)[:n]
    batch = Batch(rows, labels, lambda *_: torch.zeros(n, 1))
    net = Network(nn.Identity(), nn.Identity())
    step = Step((net,), {"labeled": batch}, {"features": features}, np.random.default_rng(7), 0, 0, 0)
    found = method.synthetic_labels(step)
    rng = np.random.default_rng(7)
    pick = rng.integers(3, size=(4, n))
    x = features[rows].double().numpy()
    for m in range(4):
        replaced = rng.permutation(n) < 4  # 0.4 · 9 = 3.6 rows
        for i in range(n):
            others = sorted((j for j in range(n) if j != i), key=lambda j: float(((x[i] - x[j]) ** 2).sum()))
            assert found[m, i] == (others[pick[m, i]] if replaced[i] else i)


def test_a_batch_of_one_row_keeps_its_label() -> None:
    batch = Batch(torch.tensor([0]), torch.tensor([2]), lambda *_: torch.zeros(1, 1))
    net = Network(nn.Identity(), nn.Identity())
    step = Step((net,), {"labeled": batch}, {"features": random(1, 3)}, np.random.default_rng(0), 0, 0, 0)
    assert torch.equal(MLNT(M=2).synthetic_labels(step), torch.tensor([[2], [2]]))


def run(method: Method, **options: Any) -> Trainer:
    trainer = make_trainer(method, config=TrainConfig(epochs=4, batch_size=16, lr=0.1, ema=0.9), **options)
    trainer.run()
    return trainer


@pytest.mark.parametrize("epochs", [1, 2])
def test_features_are_those_of_the_network_after_its_last_epoch_of_pre_training(epochs: int) -> None:
    held, data = np.arange(60) % 7 == 0, toy(unlabeled=10)
    method = MLNT(M=2, pretrain=epochs)
    trainer = make_trainer(method, data=data, held_out=held)
    for _ in range(epochs):
        trainer._run_epoch([])
    pretrained: Any = copy.deepcopy(trainer.nets[0].module).eval()
    trainer.run()
    features = trainer.state["features"]
    assert features.shape == (60, 8)
    assert_allclose(features[~held], pretrained.features(trainer.inputs[~held]).detach(), rtol=1e-5, atol=1e-6)
    assert not features[held].any()


class Twice(Method):
    """Cross-entropy, and cross-entropy once more from fresh weights."""

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return Stage("first", 2, self.step), Stage("again", 2, self.step, restart="all")

    def step(self, step: Step) -> Losses:
        return {"ce": reduce.mean(cross_entropy(step.net(step.batch.weak), step.batch.labels))}


def test_without_the_meta_loss_it_is_cross_entropy_begun_anew() -> None:
    ours = weights(run(MLNT(eta=0.0, pretrain=2)))
    assert_identical(ours, weights(run(Twice())))
    assert not torch.equal(ours["raw.0.head.weight"], weights(run(MLNT(M=2, pretrain=2)))["raw.0.head.weight"])


@pytest.mark.parametrize("second_order", [False, True])
def test_the_work_is_counted(second_order: bool) -> None:
    """Within a tenth of what torch counts, for a network of several equal layers."""
    p, method = Problem(flat), MLNT(M=10, second_order=second_order)
    p.view = random(6, 32)
    p.module = build_model(ModelConfig(name="mlp", hidden=(32,) * 6, batch_norm=True), (32,), 3, seed=0)
    cost, step = network_cost(p.module, p.view), meta_step_of(method, p)
    with FlopCounterMode(display=False) as counter:
        torch.autograd.backward(sum(method.meta_step(step).values(), torch.zeros(())))
    counted = step.net.forwards * cost.forward + step.net.backwards * cost.training
    assert_allclose(counted, counter.get_total_flops(), rtol=0.1)


def test_dropout_is_allowed() -> None:
    trainer = run(MLNT(M=2, pretrain=1, second_order=True), dropout=0.5)
    assert all(tensor.isfinite().all() for tensor in trainer.tensors().values())


@pytest.mark.parametrize("epochs", [2, 3, 7, 60])
def test_stages_add_up_to_any_run(epochs: int) -> None:
    pretrain, meta = MLNT().stages(replace(TASK, epochs=epochs))
    assert (pretrain.epochs + meta.epochs, meta.restart) == (epochs, "all")
    assert min(pretrain.epochs, meta.epochs) >= 1


def test_published_settings() -> None:
    recipe = published(Setting("cifar10"))
    pretrain, meta = recipe.build().stages(replace(TASK, epochs=recipe.train["epochs"].value))
    assert (pretrain.epochs, meta.epochs) == (20, 120)
    (drop,) = recipe.train["milestones"].value
    assert_allclose(drop * recipe.train["epochs"].value - pretrain.epochs, 80)
    assert (recipe.build(), published(Setting()).build()) == (MLNT(pretrain=20), MLNT(eta=20.0))


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(UserError, match=r"method\.M is 0, expected 1 to 1000"):
        MLNT(M=0)
    with pytest.raises(UserError, match=r"method\.pretrain is 0, expected at least 1 epoch"):
        MLNT(pretrain=0)
    with pytest.raises(UserError, match=r"method\.pretrain is 9 epochs, expected 0 to 4"):
        MLNT(pretrain=9).stages(replace(TASK, epochs=4))
