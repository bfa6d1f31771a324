"""SOP and SOP+ against their equations in float64, and where their gradients may and may not go."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from engine.helpers import SHORT, make_trainer, weights
from numpy.testing import assert_allclose
from torch import Tensor

from methods.reference import make_step, random_labels, random_logits
from pars.errors import UserError
from pars.method_api import Setting, Step
from pars.methods import Supervised
from pars.methods.sop import SOP, published, published_plus
from pars.noise import NoiseConfig

PLUS = SOP(lr_u=3.0, lr_v=7.0, lambda_C=0.9, lambda_B=0.1)
ROWS = torch.tensor([4, 0, 7, 2, 9])


def values(seed: int) -> tuple[Tensor, Tensor]:
    """u and v of twelve rows; some squares are above 1, where they are cut off."""
    generator = torch.manual_seed(seed)
    return torch.randn(12, generator=generator), 0.7 * torch.randn(12, 4, generator=generator)


def step_of(seed: int) -> tuple[Step, dict[str, Tensor], Tensor, Tensor, Tensor]:
    logits, labels, (u, v) = random_logits(seed), random_labels(seed), values(seed)
    return make_step(logits, labels, rows=ROWS, state={"u": u.clone(), "v": v.clone()}), logits, labels, u, v


def expected(labels: list[int], weak: Tensor, strong: Tensor, u: Tensor, v: Tensor) -> dict[str, Tensor]:
    """PLUS, row by row in float64: the sums as the paper writes them."""
    k = weak.shape[1]
    ce, noise, consistency, mean_q = [], [], [], []
    for i, y in enumerate(labels):
        p = weak[i].softmax(0)
        e_y, guess = torch.eye(k, dtype=p.dtype)[y], torch.eye(k, dtype=p.dtype)[int(p.argmax())]
        big_u, big_v = (u[i] ** 2 * e_y).clamp(max=1), (v[i] ** 2 * (1 - e_y)).clamp(max=1)
        q = (p + big_u - big_v.detach()).clamp(min=1e-4)
        q = (q / q.sum()).clamp(1e-4, 1)
        mean_q.append(q)
        ce.append(-q[y].log())
        noise.append(((guess + big_u - big_v - e_y) ** 2).sum())
        target = weak[i].detach().softmax(0)
        consistency.append((target * (target.log() - strong[i].log_softmax(0))).sum())
    h = torch.stack(mean_q).mean(0).clamp(min=1e-4)
    return {
        "ce": torch.stack(ce).mean(),
        "noise": torch.stack(noise).mean(),
        "balance": -0.1 * h.log().mean(),  # ours is log K less
        "consistency": 0.9 * torch.stack(consistency).mean(),
    }


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_losses_and_all_gradients_are_those_of_the_equations(seed: int) -> None:
    step, logits, labels, u, v = step_of(seed)
    losses = PLUS.step(step)
    torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
    given = (logits["raw/weak"], logits["raw/strong"], u[ROWS], v[ROWS])
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    right = expected(labels.tolist(), *exact)
    torch.stack(list(right.values())).sum().backward()  # type: ignore[no-untyped-call]
    log_k = torch.tensor(4.0).log().item()
    assert list(losses) == list(right)
    for name, loss in losses.items():
        offset = 0.1 * log_k if name == "balance" else 0.0
        assert_allclose(loss.item() + offset, right[name].item(), rtol=1e-4)
    of_u, of_v = step.row_parameters
    assert [(p.name, p.lr) for p in (of_u, of_v)] == [("u", 3.0), ("v", 7.0)]
    for ours, there in zip((logits["raw/weak"], logits["raw/strong"], of_u.values, of_v.values), exact, strict=True):
        assert ours.grad is not None
        assert there.grad is not None
        assert_allclose(ours.grad, there.grad, rtol=1e-3, atol=1e-6)


def gradients(loss: Tensor, *inputs: Tensor) -> list[bool]:
    """Which inputs a loss has a gradient in."""
    found = torch.autograd.grad(loss, inputs, retain_graph=True, allow_unused=True)
    return [gradient is not None and bool(gradient.any()) for gradient in found]


def test_v_is_learned_by_the_second_loss_only_and_the_network_not_by_it() -> None:
    step, logits, *_ = step_of(3)
    losses = PLUS.step(step)
    u, v = (p.values for p in step.row_parameters)
    places = (logits["raw/weak"], logits["raw/strong"], u, v)
    assert gradients(losses["ce"], *places) == [True, False, True, False]
    assert gradients(losses["noise"], *places) == [False, False, True, True]
    assert gradients(losses["balance"], *places) == [True, False, True, False]
    assert gradients(losses["consistency"], *places) == [False, True, False, False]


def test_the_gradient_of_v_has_a_closed_form_and_none_at_the_given_label() -> None:
    """d/dv_k of (1/B) (g_k - v_k²)² = -4/B · v_k (g_k - v_k²), g being the one-hot prediction, where v_k² < 1."""
    step, logits, labels, _, v = step_of(4)
    torch.autograd.backward(SOP().step(step)["noise"])
    gradient = step.row_parameters[1].values.grad
    assert gradient is not None
    there = v[ROWS].double()
    guess = torch.eye(4, dtype=torch.float64)[logits["raw/weak"].argmax(1)]
    exact = -4 / 5 * there * (guess - there**2) * (there**2 < 1)
    exact[torch.arange(5), labels] = 0
    assert_allclose(gradient, exact, rtol=1e-4, atol=1e-7)


def test_without_noise_vectors_it_is_cross_entropy_up_to_its_clamp() -> None:
    ours, plain = make_trainer(SOP(sigma=0.0, lr_u=0.0, lr_v=0.0)), make_trainer(Supervised(loss="ce"))
    ours.run()
    plain.run()
    assert not ours.state["u"].any()
    assert not ours.state["v"].any()
    others = weights(plain)
    for name, tensor in weights(ours).items():
        assert_allclose(tensor, others[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_noise_vectors_begin_tiny_by_the_run_s_seed_and_leave() -> None:
    def first(seed: int) -> dict[str, Tensor]:
        trainer = make_trainer(SOP(sigma=1e-8), seed=seed)
        trainer.runner.before_epoch(trainer.runner.stage_of(0), trainer.nets, 0)
        return trainer.state

    state = first(0)
    assert torch.equal(state["v"], first(0)["v"])
    assert not torch.equal(state["v"], first(1)["v"])
    assert_allclose(state["v"].std(), 1e-8, rtol=0.2)
    trainer = make_trainer(SOP(sigma=1e-8), config=replace(SHORT, epochs=12))
    trainer.run()
    # Squares of 10⁻⁸ have gradients of 10⁻⁸: in half precision there would be none, and u and v would stay.
    assert trainer.state["u"].abs().max() > 100 * state["u"].abs().max()
    assert trainer.state["v"].abs().max() > 100 * state["v"].abs().max()


def test_without_plus_no_strong_view_is_made() -> None:
    step, _, _, _, _ = step_of(5)
    assert list(SOP().step(step)) == ["ce", "noise"]
    assert step.net.backwards == 5
    step, _, _, _, _ = step_of(5)
    PLUS.step(step)
    assert step.net.backwards == 10


def test_evidence_is_the_noise_of_each_label() -> None:
    state = {"u": torch.tensor([0.5, -2.0]), "v": torch.tensor([[0.0, 0.1], [-3.0, 0.0]])}
    found = SOP().evidence(state)
    assert_allclose(found["given_noise"], [0.25, 1])
    assert_allclose(found["class_noise"], [[0.0, 0.01], [1.0, 0.0]], rtol=1e-6)


def test_hyper_parameters_are_checked() -> None:
    for wrong in ({"lr_u": -1.0}, {"lambda_C": float("nan")}, {"sigma": 2.0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            SOP(**wrong)


def test_published_settings() -> None:
    pair = NoiseConfig(kind="asymmetric", rate=0.4)
    ten = published_plus(Setting("cifar10"))
    assert ten.build() == SOP(lr_u=10.0, lr_v=10.0, sigma=1e-8, lambda_C=0.9, lambda_B=0.1)
    asymmetric = published_plus(Setting("cifar10", pair)).method
    assert (asymmetric["lr_u"].value, asymmetric["lr_v"].value, asymmetric["lr_v"].source) == (10, 100, "recall")
    instance = published_plus(Setting("cifar10", NoiseConfig(kind="instance", rate=0.4))).method
    assert (instance["lr_v"].value, instance["lr_v"].source) == (10, "third-party")
    assert published(Setting("cifar100")).build() == SOP(lr_u=1.0, lr_v=10.0, sigma=1e-8)
    assert published(Setting("cifar100", pair)).build() == SOP(lr_u=0.1, lr_v=100.0, sigma=1e-8)
    assert published_plus(Setting("cifar100")).train["weight_decay"].value == 1e-3
    assert ten.views["strong"].value == "autoaugment"
    assert published(Setting("cifar10")).train["epochs"].value == 120
    assert published_plus(Setting()).build() == SOP(lambda_C=0.9, lambda_B=0.1)
