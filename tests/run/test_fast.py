"""The fast presets, and a network that is measured on the training images before it is trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from engine.test_resume import StopAt
from models.test_winograd import HAS_COMPILER

from pars import run
from pars.cli.train import parser, resolve
from pars.data import Dataset, Split
from pars.engine import Interrupted, load_tensors
from pars.errors import UserError
from pars.methods import PARS, PARSFast
from pars.models import Convolution, ModelConfig
from pars.models.fast_cnn import patch_covariance, whitening_filters
from pars.noise import NoiseConfig
from run.helpers import SYMMETRIC, images

compiles = pytest.mark.skipif(not HAS_COMPILER, reason="no C++ compiler: Winograd convolutions are not tested")
FAST = ("cifar10-fast", "cifar100-fast", "cifar10n-fast", "cifar10-low-resource-fast")


def small(holdout: float = 0.0) -> run.RunConfig:
    """Two epochs of four steps of a narrow network."""
    config = run.preset("cifar10-fast")(SYMMETRIC)
    train = replace(config.train, epochs=2, batch_size=16, steps_per_epoch=4)
    data, model = replace(config.data, holdout=holdout), replace(config.model, width=4)
    method = config.method
    assert isinstance(method, PARSFast)
    method = replace(method, warm_up=1, tau=0.2, agreement_start=0.6)  # as in a long run
    return replace(config, data=data, model=model, train=train, method=method)


def whitening_of(dataset: Dataset, rows: slice | np.ndarray[tuple[int], np.dtype[np.int64]]) -> torch.Tensor:
    """The filters [12, 3, 2, 2] that some rows of the training images call for."""
    scaled = torch.from_numpy(dataset.train.inputs[rows]).double() / 255
    mean, std = (torch.tensor(v, dtype=torch.float64)[:, None, None] for v in (dataset.mean, dataset.std))
    return whitening_filters(patch_covariance((scaled - mean) / std)).view(12, 3, 2, 2)


@pytest.mark.parametrize("name", FAST)
def test_the_fast_recipes_train_a_fast_network_with_light_views(name: str) -> None:
    config = run.preset(name)(SYMMETRIC)
    assert config.model == ModelConfig(name="fast_cnn", width=32)
    train = config.train
    assert (train.optimizer, train.lr, train.momentum) == ("muon", 0.04, 0.9)
    assert train.batch_size == (64 if "low-resource" in name else 256)
    assert (train.nesterov, train.weight_decay) == (True, 5e-4)
    assert (train.ema, train.ema_ramp) == (0.99, True)
    assert (config.views.weak, config.views.strong, config.views.cutout) == ("auto", "cutout", 8)
    assert (config.views.pad_mode, config.views.mirror) == ("reflect", True)
    assert isinstance(config.method, PARS)
    assert config.method.robust == "gce(q=0.7)"
    assert config.data.name == ("cifar100" if name.startswith("cifar100") else "cifar10")
    assert config.data.labeled == (4_000 if "low-resource" in name else None)


def test_an_epoch_of_fixmatch_costs_two_of_cross_entropy(tmp_path: Path) -> None:
    spent = []
    for name in ("ce", "fixmatch"):
        config = run.preset("cifar10-fast")(SYMMETRIC, name)
        train = replace(config.train, epochs=1, batch_size=16, optimizer="sgd", dynamics_every=0)
        config = replace(config, model=replace(config.model, width=4), train=train)
        spent.append(run.train(config, tmp_path / name, dataset=images(64))["flop"])
    assert spent[1] == 2 * spent[0]


def on_the_command_line(name: str, *flags: str) -> run.RunConfig:
    options, rest = parser().parse_known_args(["--preset", name, *flags])
    return resolve(options, rest)


@pytest.mark.parametrize(
    ("budget", "width", "batch_size"), [("0.02", 32, 128), ("0.05", 32, 256), ("0.3", 32, 256), ("0.5", 64, 256)]
)
@pytest.mark.parametrize("name", ["cifar10-fast", "cifar100-fast", "cifar10n-fast"])
def test_network_and_batch_follow_from_the_budget_unless_given(
    name: str, budget: str, width: int, batch_size: int
) -> None:
    config = on_the_command_line(name, "--budget", budget)
    assert (config.model.width, config.train.batch_size) == (width, batch_size)
    assert config == on_the_command_line(name, "--train.budget", budget)
    assert config == run.preset(name, float(budget))(config.noise)
    own = on_the_command_line(name, "--budget", budget, "--model.width", "48", "--train.batch-size", "64")
    assert (own.model.width, own.train.batch_size) == (48, 64)


@pytest.mark.parametrize(("flags", "start"), [((), 1.0), (("0.08",), 1.0), (("0.15",), 0.6), (("0.6",), 0.6)])
def test_late_in_a_long_run_only_labels_that_the_teacher_predicts_train(flags: tuple[str, ...], start: float) -> None:
    budget = [text for value in flags for text in ("--budget", value)]
    method = on_the_command_line("cifar10-fast", *budget).method
    assert isinstance(method, PARSFast)
    assert method.agreement_start == start
    own = on_the_command_line("cifar10-fast", *budget, "--method.agreement-start", "0.9").method
    assert own == replace(method, agreement_start=0.9)


def test_pars_as_its_paper_has_it_is_not_sized() -> None:
    method = on_the_command_line("cifar10-fast", "--budget", "0.6", "--method", "pars-paper").method
    assert method == run.preset("cifar10-fast")(SYMMETRIC, "pars-paper").method


@pytest.mark.parametrize("name", ["digits", "cifar10-low-resource-fast"])
@pytest.mark.parametrize("budget", ["0.02", "0.6"])
def test_other_recipes_keep_their_size_with_a_budget(name: str, budget: str) -> None:
    with_budget, without = on_the_command_line(name, "--budget", budget), on_the_command_line(name)
    assert with_budget.model == without.model
    assert with_budget.train == replace(without.train, budget=float(budget))


def noise_on_the_command_line(*flags: str) -> NoiseConfig:
    return on_the_command_line("cifar10n-fast", *flags).noise


def test_cifar10n_has_the_labels_people_gave_unless_told() -> None:
    worse = NoiseConfig(kind="file", path="CIFAR-10_human.pt", labels="worse")
    assert noise_on_the_command_line() == worse
    assert noise_on_the_command_line("--noise.labels", "aggre") == replace(worse, labels="aggre")
    assert run.preset("cifar10n-fast")(SYMMETRIC).noise == SYMMETRIC


def test_a_run_whitens_by_its_training_images_without_the_held_out_ones() -> None:
    dataset = images(60)
    bright = dataset.train.inputs.copy()
    bright[1::2, :, ::2] = 255  # rows of two kinds, so that it shows which were looked at
    dataset = replace(dataset, train=Split(bright, dataset.train.labels, dataset.train.true_labels))
    prepared = run.load_training_data(small(holdout=0.25), dataset)
    assert prepared.held_out.any()
    (network,) = prepared.networks(small())
    found = network.state_dict()["whitening.weight"]
    expected = whitening_of(dataset, np.flatnonzero(~prepared.held_out))
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)
    assert not torch.allclose(found[:12].double(), whitening_of(dataset, slice(None)), rtol=1e-3, atol=1e-3)


def test_a_large_set_is_sampled_evenly() -> None:
    prepared = run.load_training_data(small(), images(45))
    rows = torch.from_numpy(prepared.data.train.inputs)
    assert torch.equal(prepared.sample(10), prepared.views.plain(rows[::5]))
    assert torch.equal(prepared.sample(n_values=4 * 3 * 32 * 32), prepared.views.plain(rows[::12]))
    assert torch.equal(prepared.sample(), prepared.views.plain(rows))


def test_training_moves_everything_but_the_whitening(tmp_path: Path) -> None:
    dataset = images(64)
    run.train(small(), tmp_path / "run", dataset=dataset)
    tensors, _ = load_tensors(tmp_path / "run" / "model.safetensors")
    expected = whitening_of(dataset, slice(None))
    for kind in ("average", "raw"):
        found = tensors[f"{kind}.0.whitening.weight"]
        torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)
        assert tensors[f"{kind}.0.whitening.bias"].any()
    assert torch.equal(tensors["average.0.whitening.weight"], tensors["raw.0.whitening.weight"])


def test_a_loaded_run_answers_without_its_data(tmp_path: Path) -> None:
    dataset = images(64)
    config = small()
    run.train(config, tmp_path / "run", dataset=dataset)
    trainer = run.build_trainer(config, run.load_training_data(config, dataset), None)
    trainer.run()
    found = run.load_run(tmp_path / "run").predict_proba(dataset.train.inputs)
    assert torch.equal(found, trainer.predict_proba(torch.from_numpy(dataset.train.inputs)))


def test_with_mirror_the_log_says_what_predictions_with_mirror_images_are_worth(tmp_path: Path) -> None:
    dataset, config = images(64, n_test=300), small()
    config = replace(config, views=replace(config.views, mirror=True))
    result = run.train(config, tmp_path / "run", dataset=dataset)
    assert dataset.test is not None
    classifier = run.load_run(tmp_path / "run")
    found = classifier.predict_proba(dataset.test.inputs)
    network = classifier.networks[0].eval()
    by_hand = [
        network(classifier.views.plain(torch.from_numpy(x))).softmax(dim=1)
        for x in (dataset.test.inputs, dataset.test.inputs[..., ::-1].copy())
    ]
    torch.testing.assert_close(found, (by_hand[0] + by_hand[1]) / 2)
    for name, probabilities in (("mirrored", found), ("ema", by_hand[0])):
        right = probabilities.argmax(dim=1).numpy() == dataset.test.labels
        assert result["test"][name]["last"] == pytest.approx(100 * right.mean())
    assert result["test"]["mirrored"]["last"] != result["test"]["ema"]["last"]
    saved, _ = load_tensors(tmp_path / "run" / "rows-main.safetensors")
    said = network(classifier.views.plain(torch.from_numpy(dataset.train.inputs))).softmax(dim=1)
    torch.testing.assert_close(saved["confidence"], said.amax(dim=1))  # one look is enough to count rows


def test_stopped_in_either_stage_and_resumed_it_ends_the_same(tmp_path: Path) -> None:
    dataset, config = images(64), small()
    run.train(config, tmp_path / "whole", dataset=dataset)
    for step in (2, 6):
        folder = tmp_path / str(step)
        with pytest.raises(Interrupted):
            run.train(config, folder, dataset=dataset, callback=StopAt(step))
        run.resume(folder, dataset=dataset)
        assert (folder / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


@compiles
def test_with_winograd_convolutions_it_resumes_the_same_and_predicts_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, config = images(64), small()
    winograd = replace(config, model=replace(config.model, width=8, convolution="winograd"))
    run.train(winograd, tmp_path / "whole", dataset=dataset)
    with pytest.raises(Interrupted):
        run.train(winograd, tmp_path / "stopped", dataset=dataset, callback=StopAt(6))
    run.resume(tmp_path / "stopped", dataset=dataset)
    model = "model.safetensors"
    assert (tmp_path / "stopped" / model).read_bytes() == (tmp_path / "whole" / model).read_bytes()
    trainer = run.build_trainer(winograd, run.load_training_data(winograd, dataset), None)
    trainer.run()

    def missing() -> None:
        raise UserError("no compiler")

    monkeypatch.setattr("pars.models.winograd.kernel", missing)
    found = run.load_run(tmp_path / "whole").predict_proba(dataset.train.inputs)
    monkeypatch.undo()
    own = trainer.predict_proba(torch.from_numpy(dataset.train.inputs))
    torch.testing.assert_close(found, own, rtol=1e-4, atol=1e-5)


@compiles
def test_gradients_of_gradients_take_direct_convolutions(tmp_path: Path) -> None:
    config = run.preset("cifar10-fast")(SYMMETRIC, "mlnt")
    train, dataset = replace(config.train, epochs=2, batch_size=16, steps_per_epoch=2), images(48)
    heads = []
    for convolution in get_args(Convolution):
        model = replace(config.model, width=8, convolution=convolution)
        result = run.train(replace(config, model=model, train=train), tmp_path / convolution, dataset=dataset)
        heads.append(load_tensors(tmp_path / convolution / "model.safetensors")[0]["raw.0.head.weight"])
        assert result["epochs"] == 2
    torch.testing.assert_close(*heads, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("method", ["joint-optim", "pes", "mlnt", "ssr"])
def test_methods_that_begin_anew_or_use_features_train_it(method: str, tmp_path: Path) -> None:
    """Joint optimization draws all weights anew, PES the head; SSR reads features; MLNT has gradients of gradients."""
    config = run.preset("cifar10-fast")(SYMMETRIC, method)
    train = replace(config.train, epochs=4, batch_size=16)
    config = replace(config, model=replace(config.model, width=4), train=train)
    dataset = images(48)
    run.train(config, tmp_path / "run", dataset=dataset)
    tensors, _ = load_tensors(tmp_path / "run" / "model.safetensors")
    found = tensors["raw.0.whitening.weight"][:12].double()
    torch.testing.assert_close(found, whitening_of(dataset, slice(None)), rtol=1e-3, atol=1e-3)
