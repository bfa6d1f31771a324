"""The noise adaptation layer against its definition, its first values, and its identity."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from engine.helpers import SHORT, Recorder, assert_identical, make_trainer, network, toy, weights
from numpy.testing import assert_allclose
from torch import Tensor, nn

from methods.by_hand import epoch_of, random, random_classes
from methods.reference import Array, softmax
from pars.errors import UserError
from pars.method_api import Batch, Epoch, Network, Setting, Step, Task
from pars.methods import Supervised
from pars.methods.noise_adaptation import ENTRIES, LAYER, NoiseAdaptation, confusion_matrix

both_layers = pytest.mark.parametrize("layer", ["simple", "complex"])


def step_of(method: NoiseAdaptation) -> tuple[Step, nn.Module]:
    """Six rows of four features for a small network, and a layer with random weights."""
    module = network(seed=1, batch_norm=False)
    layer = nn.ModuleDict(dict(method.attachments(8, 3)))
    for number, parameter in enumerate(layer.parameters()):
        parameter.data.copy_(random(number, *parameter.shape, size=1.0))
    view, labels = random(5, 6, 4), random_classes(5, 6, 3)
    batch = Batch(torch.arange(6), labels, lambda name, index: view)
    state = method.initial_state(Task(6, 3, labels, 4))
    return Step((Network(module, module, layer),), {"labeled": batch}, state, np.random.default_rng(0), 0, 0.5, 0.5), (
        module
    )


def theta_of(step: Step, features: Array) -> Array:
    """θ of a row, in float64."""
    layer: Any = step.net.attached[LAYER]
    scores = layer["b"].detach().double().numpy()
    if "u" in layer:
        scores = scores + layer["u"].detach().double().numpy() @ features
    return np.stack([softmax(row) for row in scores])


@both_layers
def test_the_loss_is_the_likelihood_of_the_label_after_the_layer(layer: Any) -> None:
    method = NoiseAdaptation(layer=layer, beta=0.25)
    step, module = step_of(method)
    losses = method.adapt_step(step)
    hidden: Any = module
    adapted, plain = [], []
    for i, y in enumerate(step.batch.labels.tolist()):
        x = step.batch.weak[i : i + 1]
        p = softmax(module(x)[0].detach().double().numpy())
        theta = theta_of(step, hidden.features(x)[0].detach().double().numpy())
        joint = np.array([p[k] * theta[k, y] for k in range(3)])
        adapted.append(-math.log(joint.sum()))
        plain.append(-math.log(p[y]))
        assert_allclose(step.state["posterior"][i], joint / joint.sum(), rtol=1e-4)
    assert_allclose(losses["adapted"].item(), 0.75 * np.mean(adapted), rtol=1e-5)
    assert_allclose(losses["ce"].item(), 0.25 * np.mean(plain), rtol=1e-5)


@both_layers
@pytest.mark.parametrize("learned", [True, False])
def test_network_and_layer_learn_together_unless_the_layer_is_kept(layer: Any, learned: bool) -> None:
    method = NoiseAdaptation(layer=layer, learned=learned)
    step, module = step_of(method)
    torch.autograd.backward(method.adapt_step(step)["adapted"])
    assert all(parameter.grad is not None for parameter in module.parameters())
    assert [parameter.grad is not None for parameter in step.net.attached.parameters()] == [learned] * (
        2 if layer == "complex" else 1
    )


@both_layers
def test_a_layer_frozen_at_the_identity_is_cross_entropy(layer: Any) -> None:
    method = NoiseAdaptation(layer=layer, learned=False, initial_noise=0.0, pretrain=0)
    ours, plain = make_trainer(method), make_trainer(Supervised(loss="ce"))
    ours.run()
    plain.run()
    theirs = weights(plain)
    assert_identical({name: t for name, t in weights(ours).items() if name in theirs}, theirs)
    assert torch.equal(ours.state["transition"], torch.eye(3))


@both_layers
def test_with_only_plain_cross_entropy_it_is_the_baseline(layer: Any) -> None:
    ours, plain = make_trainer(NoiseAdaptation(layer=layer, beta=1.0, pretrain=0)), make_trainer(Supervised(loss="ce"))
    ours.run()
    plain.run()
    theirs = weights(plain)
    assert_identical(
        {name: t for name, t in weights(ours).items() if name.startswith("raw.")},
        {name: t for name, t in theirs.items() if name.startswith("raw.")},
    )


def test_the_complex_layer_begins_as_the_simple_one() -> None:
    simple, complex_ = NoiseAdaptation(layer="simple"), NoiseAdaptation(layer="complex")
    assert not dict(complex_.attachments(8, 3)[LAYER].named_parameters())["u"].any()
    (of_simple, _), (of_complex, _) = step_of(simple), step_of(complex_)
    layers: Any = [step.net.attached[LAYER] for step in (of_simple, of_complex)]
    layers[1]["u"].data.zero_()
    layers[1]["b"].data.copy_(layers[0]["b"])
    found = [m.adapt_step(s)["adapted"].item() for m, s in ((simple, of_simple), (complex_, of_complex))]
    assert_allclose(found[0], found[1], rtol=1e-6)


def layered(given: Tensor, logits: Tensor, method: NoiseAdaptation) -> Epoch:
    epoch = epoch_of(given, {}, 3, logits=[logits])
    epoch.net.attached.update(method.attachments(8, 3))
    return epoch


@pytest.mark.parametrize("confusion", ["hard", "soft"])
def test_the_layer_begins_with_the_confusion_of_predictions_and_labels(confusion: Any) -> None:
    method = NoiseAdaptation(confusion=confusion)
    given = torch.tensor([0, 1, 2, 0, 1, 2, 0, -1, 1])
    logits = 2 * torch.eye(3)[[0, 1, 2, 1, 1, 2, 0, 2, 0]]
    epoch = layered(given, logits, method)
    method.begin_with_confusion(epoch)
    counts = np.full((3, 3), 1e-8)
    for row, y in zip(logits.double().numpy(), given.tolist(), strict=True):
        if y >= 0:
            counts[:, y] += softmax(row) if confusion == "soft" else np.eye(3)[row.argmax()]
    layer: Any = epoch.net.attached[LAYER]
    assert_allclose(layer["b"].detach().softmax(dim=1), counts / counts.sum(1, keepdims=True), rtol=1e-5, atol=1e-8)
    kept = layer["b"].clone()
    epoch.index, epoch.state = 1, {}
    method.begin_with_confusion(epoch)  # once only
    assert torch.equal(layer["b"], kept)


def test_a_network_that_predicts_one_class_only_says_nothing_of_the_noise() -> None:
    method = NoiseAdaptation()
    epoch = layered(torch.tensor([0, 1, 2, 2]), torch.tensor([[5.0, 0.0, 0.0]] * 4), method)
    method.begin_with_confusion(epoch)
    layer: Any = epoch.net.attached[LAYER]
    assert epoch.notes["kept_last_split"] == 1
    assert_allclose(layer["b"].detach().exp(), np.full((3, 3), 0.23) + 0.31 * np.eye(3), rtol=1e-5)


def test_a_class_that_is_never_predicted_has_labels_of_all_kinds() -> None:
    found = confusion_matrix(torch.tensor([[5.0, 0.0], [5.0, 0.0]]), torch.tensor([0, 1]), soft=False)
    assert_allclose(found, np.full((2, 2), 0.5))


def test_without_pre_training_the_layer_begins_near_symmetric_noise() -> None:
    seen = Recorder()
    trainer = make_trainer(NoiseAdaptation(pretrain=0, initial_noise=0.3), callback=seen)
    trainer.runner.before_epoch(trainer.runner.stage_of(0), trainer.nets, 0)
    layer: Any = trainer.nets[0].attached[LAYER]
    expected = np.log(np.full((3, 3), 0.15) + 0.55 * np.eye(3))
    assert_allclose(layer["b"].detach(), expected, atol=0.0101)
    assert not np.allclose(layer["b"].detach(), expected, atol=1e-4)
    trainer.run()
    assert [line["stage"] for line in seen.lines] == ["adapt"] * 4


def test_with_few_wrong_labels_the_layer_finds_them() -> None:
    data = toy(360, spread=0.3)  # 30 % of labels drawn at random: θ_ii = 0.8, θ_ij = 0.1
    trainer = make_trainer(NoiseAdaptation(pretrain=4), data=data, config=replace(SHORT, epochs=12, lr=0.05))
    trainer.run()
    assert_allclose(trainer.state["transition"], np.full((3, 3), 0.1) + 0.7 * np.eye(3), atol=0.1)
    posterior = trainer.method.evidence(trainer.state)["posterior"]
    assert data.train.true_labels is not None
    assert (posterior.argmax(1).numpy() == data.train.true_labels).mean() > 0.94


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"layer": "other"}, r"method\.layer is 'other'"),
        ({"beta": 1.5}, r"method\.beta is 1\.5"),
        ({"initial_noise": 1.0}, r"method\.initial_noise is 1\.0"),
        ({"initial_noise": 0.0}, r"method\.initial_noise is 0\.0, expected a number above 0, to learn from"),
        ({"pretrain": -1}, r"method\.pretrain is -1"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        NoiseAdaptation(**wrong)


def test_published_settings() -> None:
    simple, complex_ = ENTRIES
    assert simple.recipe(Setting()).build() == NoiseAdaptation()
    hundred = complex_.recipe(Setting("cifar100"))
    assert hundred.build() == NoiseAdaptation(layer="complex", pretrain=40)
    assert (hundred.train["optimizer"].value, hundred.train["batch_size"].value) == ("adam", 256)
    assert {cited.source for cited in simple.recipe(Setting("cifar10")).train.values()} == {"ours"}
