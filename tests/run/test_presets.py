"""Recipes: the CIFAR ones are the paper's, and all of them train."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from pars import run
from pars.engine import TrainConfig
from pars.engine.optimizer import learning_rate
from pars.errors import UserError
from pars.losses import parse
from pars.method_api import Setting, Task
from pars.methods import REGISTRY, PARSFast, PARSPaper, Supervised
from pars.methods.fixmatch import FixMatch
from pars.models import ModelConfig
from pars.noise import NoiseConfig
from run.helpers import SYMMETRIC, images

CIFAR = ("cifar10", "cifar100", "cifar10-low-resource", "cifar100-low-resource")


def recipe(name: str, rate: float = 0.5, method: str | None = None) -> run.RunConfig:
    return run.preset(name)(NoiseConfig(kind="symmetric", rate=rate), method)


def method_of(config: run.RunConfig) -> PARSPaper:
    assert isinstance(config.method, PARSPaper)
    return config.method


@pytest.mark.parametrize("name", CIFAR)
def test_the_cifar_recipes_train_as_the_paper_says(name: str) -> None:
    config = recipe(name)
    train, method = config.train, method_of(config)
    assert train.epochs == 100
    assert (train.lr, train.momentum, train.weight_decay, train.batch_size) == (0.03, 0.9, 5e-4, 128)
    assert not train.nesterov
    assert train.schedule == "cosine-7-16"
    assert learning_rate(train, step=50, total=100) == 0.03 * math.cos(7 * math.pi / 32)
    assert (train.ema, train.ema_ramp, train.grad_clip) == (0.999, False, None)
    assert (method.tau, method.lambda_S, method.lambda_N, method.lambda_R, method.mu) == (0.95, 1.0, 0.1, 1.0, 3.0)
    assert (config.model.name, config.model.width or 64) == ("preact_resnet18", 64)
    assert config.data.name == name.split("-")[0]
    assert config.noise.convention == "inclusive"  # DivideMix's, behind the paper's tables


@pytest.mark.parametrize("name", CIFAR)
def test_the_cifar_recipes_read_the_paper_literally(name: str) -> None:
    method = method_of(recipe(name))
    assert type(method) is PARSPaper
    assert (method.pseudo, method.pseudo_negative, method.pseudo_positive) == (True, True, "ce")


@pytest.mark.parametrize(("rate", "epochs"), [(0.2, 25), (0.5, 25), (0.6, 25), (0.61, 40), (0.8, 40), (0.9, 40)])
def test_warm_up_on_cifar10_is_longer_for_more_noise(rate: float, epochs: int) -> None:
    for name in ("cifar10", "cifar10-low-resource"):
        assert method_of(recipe(name, rate)).warm_up == epochs


@pytest.mark.parametrize("rate", [0.2, 0.9])
def test_warm_up_on_cifar100_is_half_of_the_run(rate: float) -> None:
    for name in ("cifar100", "cifar100-low-resource"):
        assert method_of(recipe(name, rate)).warm_up == 50


@pytest.mark.parametrize("method", REGISTRY)
def test_with_few_labels_every_method_takes_the_same_number_of_steps(method: str) -> None:
    for name in ("cifar10-low-resource", "cifar100-low-resource"):
        config = recipe(name, method=method)
        assert (config.train.epochs, config.train.steps_per_epoch) == (100, 391)
        task = Task(n_rows=10, n_classes=10, labels=torch.zeros(10, dtype=torch.long), epochs=100)
        assert sum(stage.epochs for stage in config.method.stages(task)) == 100


def test_asymmetric_noise_of_40_per_cent_gets_the_short_warm_up() -> None:
    assert method_of(run.preset("cifar10")(NoiseConfig(kind="asymmetric", rate=0.4))).warm_up == 25


def test_the_robust_loss_is_the_papers() -> None:
    assert parse(method_of(recipe("cifar10")).robust) == parse("nce+mae")
    assert parse(method_of(recipe("cifar100")).robust) == parse("10*nce+mae")
    assert recipe("cifar100", method="warmup").method == Supervised(loss="10*nce+mae")


@pytest.mark.parametrize(("name", "labeled"), [("cifar10", 4_000), ("cifar100", 10_000)])
def test_low_resource_keeps_few_labels_and_as_many_steps(name: str, labeled: int) -> None:
    full, few = recipe(name), recipe(f"{name}-low-resource")
    assert (few.data.labeled, few.train.steps_per_epoch) == (labeled, 391)
    assert math.ceil(50_000 / full.train.batch_size) == 391
    back = replace(few, data=replace(few.data, labeled=None), train=replace(few.train, steps_per_epoch=None))
    assert back == full


@pytest.mark.parametrize("name", run.PRESETS)
def test_every_recipe_takes_every_method_and_keeps_the_noise(name: str) -> None:
    for method in REGISTRY:
        check_recipe(name, method)


def check_recipe(name: str, method: str) -> None:
    config = recipe(name, 0.4, method)
    assert config.noise == NoiseConfig(kind="symmetric", rate=0.4)
    base = name.removesuffix("-low-resource")
    data = base if base in ("cifar10", "cifar100", "clothing1m") else "small"
    # the preset's own robust loss
    pixels = name in ("cifar10-small", "images")
    robust = "gce(q=0.7)" if pixels or name.endswith("-fast") else None
    tau = 0.9 if name == "features" else None  # and its own confidence
    published = REGISTRY[method].recipe(Setting(cast(Any, data), config.noise, robust, tau, pixels))
    on_clothing, on_cifar = (REGISTRY[method].recipe(Setting(each)) for each in ("clothing1m", "cifar10"))
    if name == "clothing1m" and on_clothing == on_cifar:
        sce = "sce(alpha=10,beta=1,A=-9.21)"  # nothing is published for Clothing1M: as for small data, not as for CIFAR
        published = replace(REGISTRY[method].recipe(Setting("small", config.noise, sce)), train={}, views={})
    expected = published.build()
    if isinstance(expected, PARSFast) and name == "cifar10-low-resource-fast":
        expected = replace(expected, pool="all", temporal_teacher=False, sampling="uniform", mu=7.0, tau=0.9)
        expected = replace(expected, agreement_start=0.8, warm_up_share=0.56)
    if isinstance(expected, FixMatch) and name in ("cifar10-fast", "cifar100-fast", "cifar10n-fast"):
        expected = replace(expected, mu=0.5)
    if name in ("cifar10-low-resource", "cifar100-low-resource") and "epochs" in published.train:
        length = published.train["epochs"].value
        expected = expected if length == 100 else expected.in_shares(length)  # a shorter run than published
    assert config.method == expected, method
    keys = {*published.train}
    if name == "clothing1m" and "epochs" in keys and "steps_per_epoch" not in keys:  # passes over all rows
        assert (config.train.steps_per_epoch, config.train.class_balanced) == (None, False)
        keys |= {"steps_per_epoch", "class_balanced"}
    same = {
        "train": {key: getattr(recipe(name, 0.4).train, key) for key in keys},
        "views": {key: getattr(recipe(name, 0.4).views, key) for key in published.views},
    }
    rest = replace(config, train=replace(config.train, **same["train"]), views=replace(config.views, **same["views"]))
    assert replace(rest, method=recipe(name, 0.4).method) == recipe(name, 0.4), method  # nothing else is changed


@pytest.mark.parametrize("name", run.PRESETS)
def test_every_recipe_says_what_it_is(name: str) -> None:
    assert (run.preset(name).__doc__ or "").strip()


def test_an_unknown_recipe_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown preset 'cifar'; there are: digits, .*cifar10, "):
        run.preset("cifar")


def short(config: run.RunConfig, *, batch_size: int) -> TrainConfig:
    return replace(config.train, epochs=2, steps_per_epoch=1, batch_size=batch_size)


def stages(result: dict[str, object], folder: Path) -> list[str]:
    lines = run.open_run(folder)[0].read_metrics()
    assert all(math.isfinite(value) for line in lines for value in line["losses"].values())
    assert result["epochs"] == 2
    return [line["stage"] for line in lines]


def test_the_full_size_network_takes_a_step_of_each_stage(tmp_path: Path) -> None:
    config = recipe("cifar10", 0.2)
    config = replace(config, train=short(config, batch_size=8), method=replace(method_of(config), warm_up=1))
    result = run.train(config, tmp_path / "run", dataset=images(20, n_test=4))
    assert stages(result, tmp_path / "run") == ["warm-up", "main"]
    (network,) = run.load_run(tmp_path / "run").networks
    assert 11.1e6 < sum(p.numel() for p in network.parameters()) < 11.3e6  # PreAct ResNet-18 of the LNL papers


@pytest.mark.parametrize("name", CIFAR)
@pytest.mark.parametrize("method", [None, "pars", "ce"])
def test_the_cifar_recipes_take_steps_on_a_narrow_network(name: str, method: str | None, tmp_path: Path) -> None:
    config = recipe(name, 0.1, method)
    if isinstance(config.method, PARSPaper):
        config = replace(config, method=replace(config.method, warm_up=1))
    narrow = ModelConfig(name="small_cnn", width=4)
    if method is None and name in ("cifar10", "cifar100"):
        narrow = replace(config.model, width=16)  # narrower ones crash in oneDNN (its issue 6035)
    config = replace(config, model=narrow, train=short(config, batch_size=16))
    dataset = images(300, 100 if "cifar100" in name else 10)
    folder = tmp_path / "run"
    expected = ["warm-up", "main"] if isinstance(config.method, PARSPaper) else ["train", "train"]
    assert stages(run.train(config, folder, dataset=dataset), folder) == expected
    assert run.open_run(folder)[1] == config


def test_low_resource_digits_cycle_their_labels(tmp_path: Path) -> None:
    config = run.preset("digits-low-resource")(SYMMETRIC)
    config = replace(config, model=ModelConfig(name="linear"), train=replace(config.train, epochs=2))
    run.train(config, tmp_path / "run")
    lines = run.open_run(tmp_path / "run")[0].read_metrics()
    assert config.train.steps_per_epoch is not None
    assert lines[-1]["steps"] == 2 * config.train.steps_per_epoch
    assert lines[0]["selection"]["raw"]["rows"] == config.train.steps_per_epoch * config.train.batch_size
    labels = (tmp_path / "run" / "labels.csv").read_text().splitlines()[1:]
    assert len([line for line in labels if line.split(",")[1]]) == config.data.labeled


def test_features_take_more_rows_for_sure_unless_pars_is_literal() -> None:
    for name, tau in (("pars", 0.9), ("pars-paper", 0.95)):
        method = recipe("features", method=name).method
        assert isinstance(method, PARSPaper)
        assert method.tau == tau
