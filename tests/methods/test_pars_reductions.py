"""PARS with parts switched off is another, simpler method, bit for bit."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from engine.helpers import assert_identical, make_trainer, toy, weights
from torch import Tensor, nn

from methods.reference import make_step
from pars.engine import TrainConfig
from pars.method_api import Network
from pars.methods import PARS, PARSFast, Supervised

N_FEATURES, N_CLASSES, TAU = 6, 3, 0.5


def small_network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(N_FEATURES, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, N_CLASSES))


def draws(n_steps: int) -> list[tuple[dict[str, Tensor], Tensor]]:
    """Views of a labeled batch and of one three times as large, with labels that can be learned."""
    rng = np.random.default_rng(0)
    centers = 1.5 * rng.standard_normal((N_CLASSES, N_FEATURES))
    out = []
    for _ in range(n_steps):
        labels, hidden = rng.integers(N_CLASSES, size=8), rng.integers(N_CLASSES, size=24)
        clean = {"raw": centers[labels], "more": centers[hidden]}
        views = {
            f"{name}/{view}": torch.tensor(x + noise * rng.standard_normal(x.shape), dtype=torch.float32)
            for name, x in clean.items()
            for view, noise in (("weak", 0.3), ("strong", 1.0))
        }
        out.append((views, torch.tensor(labels)))
    return out


def fixmatch(module: nn.Module, views: dict[str, Tensor], labels: Tensor) -> tuple[Tensor, float]:
    """FixMatch (Sohn et al. 2020) written out, and the share of rows above the threshold."""
    parts = [views["raw/weak"], views["more/weak"], views["more/strong"]]
    labeled, weak, strong = module(torch.cat(parts)).split([8, 24, 24])
    supervised = F.cross_entropy(labeled, labels)
    confidence, pseudo_labels = weak.detach().softmax(1).max(1)
    sure = (confidence > TAU).float()
    consistency = (F.cross_entropy(strong, pseudo_labels, reduction="none") * sure).sum() / len(strong)
    return supervised + consistency, float(sure.mean())


def test_without_negatives_balance_and_raw_selection_it_is_fixmatch() -> None:
    ours, theirs = small_network(), small_network()
    method = PARS(tau=TAU, lambda_N=0, lambda_R=0, robust="ce", raw_weight="one", trust="full", teacher="current")
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True) for m in (ours, theirs)]
    net, shares = Network(ours, copy.deepcopy(ours)), []
    for views, labels in draws(8):
        losses = method.main_step(make_step(views, labels, net=net))
        naive, share = fixmatch(theirs, views, labels)
        shares.append(share)
        assert_totals_agree(losses["raw"] + losses["pseudo"], naive)
        torch.autograd.backward(list(losses.values()))
        torch.autograd.backward(naive)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    assert_identical(ours.state_dict(), theirs.state_dict())
    assert any(0 < share < 1 for share in shares)  # the threshold did choose


def assert_totals_agree(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)


@pytest.mark.parametrize("loss", ["nce+mae", "gce(q=0.7)"])
def test_a_warm_up_that_never_ends_is_training_with_the_robust_loss(loss: str) -> None:
    config = TrainConfig(epochs=3, batch_size=16, lr=0.1, ema=0.9)
    pars = make_trainer(PARS(warm_up=3, robust=loss), data=toy(), config=config)
    plain = make_trainer(Supervised(loss=loss), data=toy(), config=config)
    before = {name: tensor.clone() for name, tensor in plain.nets[0].module.state_dict().items()}
    pars.run()
    plain.run()
    assert_identical(weights(pars), weights(plain))
    assert any(not torch.equal(before[name], t) for name, t in plain.nets[0].module.state_dict().items())


def test_pars_without_pseudo_labels_and_negatives_is_training_with_the_robust_loss() -> None:
    config = TrainConfig(epochs=3, batch_size=16, lr=0.1, ema=0.9)
    trainers = [
        make_trainer(method, data=toy(), config=config)
        for method in (
            PARS(warm_up=1, pseudo=False, raw_negative="none", min_share=0.0),
            Supervised(loss="nce+mae"),
        )
    ]
    for trainer in trainers:
        trainer.run()
    assert_identical(*(trainer.tensors() for trainer in trainers))


def test_agreement_from_the_start_differs_from_agreement_late_and_never() -> None:
    config = TrainConfig(epochs=4, batch_size=16, lr=0.1, ema=0.9)
    trainers = [
        make_trainer(PARSFast(warm_up=1, agreement_start=start, agreement_tau=0.5), data=toy(), config=config)
        for start in (0.0, 0.6, 1.0)
    ]
    for trainer in trainers:
        trainer.run()
    from_the_start, late, never = (weights(trainer) for trainer in trainers)
    for other in (from_the_start, never):
        assert any(not torch.equal(tensor, other[name]) for name, tensor in late.items())
