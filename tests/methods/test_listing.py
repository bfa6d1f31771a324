"""The list of methods: complete, true, and the same everywhere."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Literal, get_args

import pytest
import torch

from pars import run
from pars.augment import ViewsConfig
from pars.engine import TrainConfig
from pars.method_api import Method, Setting, Source, Task, as_markdown, describe, values
from pars.methods import REGISTRY, by_name, recipe
from pars.methods.dividemix import DivideMix
from pars.noise import NoiseConfig

ROOT = Path(__file__).parents[2]
DATA: tuple[Literal["small", "cifar10", "cifar100", "clothing1m"], ...] = ("small", "cifar10", "cifar100", "clothing1m")
OF_CLOTHING1M = {
    *("ce-dividemix", "sce", "gce", "focal", "nce+rce", "pencil", "mlnt", "dividemix", "dividemix+", "augdesc-ws"),
    *("augdesc-ws+", "augdesc-ws-waw", "augdesc-ws-saw", "elr+", "jnpl", "pes-cs", "disc", "ssr", "ssr+", "unicon"),
}
SETTINGS = [
    Setting(data, noise)
    for data, noise in product(
        DATA,
        [
            NoiseConfig(),
            *(NoiseConfig(kind="symmetric", rate=rate) for rate in (0.2, 0.5, 0.8, 0.9)),
            NoiseConfig(kind="asymmetric", rate=0.4),
            NoiseConfig(kind="pair", rate=0.4),
            NoiseConfig(kind="instance", rate=0.4),
            NoiseConfig(kind="file", path="CIFAR-10_human.pt"),
        ],
    )
]


@pytest.mark.parametrize("name", REGISTRY)
def test_every_method_says_what_it_is(name: str) -> None:
    entry, line = REGISTRY[name], describe(REGISTRY[name])
    assert entry.name == name
    assert re.fullmatch(r"[a-z][a-z0-9+-]*", name)
    assert line.title
    assert line.summary
    assert line.stages
    assert not line.summary.endswith(".")
    assert "\n" not in line.summary
    assert line.cost >= 1
    assert (ROOT / line.file).exists()
    if entry.authors:
        assert entry.year is not None
        assert 2000 < entry.year < 2030
        assert entry.link.startswith("https://")


@pytest.mark.parametrize("name", REGISTRY)
def test_every_published_setting_builds_and_every_value_has_a_source(name: str) -> None:
    for setting in SETTINGS:
        recipe = REGISTRY[name].recipe(setting)
        method = recipe.build()
        assert isinstance(method, Method)
        for table in (recipe.method, recipe.train, recipe.views):
            assert all(cited.source in get_args(Source) for cited in table.values())
        config = TrainConfig(**{key: cited.value for key, cited in recipe.train.items()})
        ViewsConfig(**{key: cited.value for key, cited in recipe.views.items()})
        task = Task(n_rows=20, n_classes=setting.n_classes, labels=torch.arange(20) % 10, epochs=config.epochs)
        assert sum(stage.epochs for stage in method.stages(task)) == config.epochs


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("epochs", [2, 3, 7, 20, 60])
def test_stages_fill_a_run_of_any_length(name: str, epochs: int) -> None:
    task = Task(n_rows=20, n_classes=3, labels=torch.arange(20) % 3, epochs=epochs)
    assert sum(stage.epochs for stage in by_name(name).stages(task)) == epochs


@pytest.mark.parametrize("name", REGISTRY)
def test_every_method_has_a_test_of_its_own(name: str) -> None:
    module = Path(REGISTRY[name].file).stem
    tests = [path.stem for path in (ROOT / "tests" / "methods").glob("test_*.py")]
    subject = "pars" if module.startswith("pars_") else module  # the three PARS files share their tests
    assert any(test.startswith(f"test_{subject}") for test in tests) or module == "supervised"


def test_the_documentation_shows_the_same_table() -> None:
    """`pars methods --markdown` prints it."""
    shown = as_markdown(REGISTRY) in (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    assert shown, "replace the table in docs/methods.md by the output of `pars methods --markdown`"


@pytest.mark.parametrize("preset", ["cifar10", "cifar100"])
def test_the_published_presets_take_every_method(preset: str) -> None:
    for name in REGISTRY:
        for setting in SETTINGS:
            run.preset(preset)(setting.noise, name)


@pytest.mark.parametrize("name", sorted(REGISTRY.keys() - {"pars", "pars-paper", "pars-fast", "warmup"}))
def test_what_nobody_has_published_for_clothing1m_is_cifar_10s(name: str) -> None:
    noise = NoiseConfig()
    own, ten = recipe(name, Setting("clothing1m", noise)), recipe(name, Setting("cifar10", noise))
    assert (own != ten) == (name in OF_CLOTHING1M)
    if own != ten:
        assert TrainConfig(**values(own.train)).lr <= 0.01  # of a pre-trained network


def test_the_published_settings_of_dividemix_on_clothing1m() -> None:
    found = recipe("dividemix", Setting("clothing1m"))
    assert found.build() == DivideMix(lambda_u=0, train_unlabeled=False, alpha=0.5, confidence_penalty=1, warm_up=1)
    train = values(found.train)
    assert [round(81 * share) for share in train["milestones"]] == [40]
    assert (train["lr"], train["weight_decay"], train["batch_size"], train["steps_per_epoch"]) == (
        0.002,
        1e-3,
        64,
        1000,
    )
