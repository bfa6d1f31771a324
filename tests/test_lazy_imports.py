"""What does not train does not wait for torch; and names that are imported lazily are those that eager imports give."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import pars
from pars import lazy
from pars.cli.main import COMMANDS
from pars.lazy_package import import_lazily

HEAVY = ("torch", "scipy", "sklearn", "matplotlib", "pandas")
CONFIGURATION = {
    "pars.augment": "ViewsConfig",
    "pars.data": "DataConfig",
    "pars.engine": "TrainConfig",
    "pars.methods": "REGISTRY, by_name",
    "pars.models": "ModelConfig",
    "pars.noise": "NoiseConfig",
    "pars.run": "PRESETS, RunConfig, preset, read_toml",
}
LAZY = ("pars.classic", "pars.engine", "pars.fitting", "pars.models", "pars.report", "pars.run")


def run_python(code: str, *args: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def heavy_after(code: str, *args: str) -> str:
    """Which heavy modules are loaded after some code, as the last line it prints."""
    out = run_python(f"import sys\n{code}\nprint([name for name in {HEAVY} if name in sys.modules])", *args)
    return out.splitlines()[-1]


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "--version",
        "methods",
        "methods --json",
        "methods --markdown",
        "train --preset cifar10-fast --method elr --help",
        *(f"{name} --help" for name in COMMANDS),
    ],
)
def test_commands_that_do_not_train_leave_torch_alone(command: str) -> None:
    code = "from pars.cli import main; assert main(sys.argv[1:]) == 0"
    assert heavy_after(code, *command.split()) == "[]"


@pytest.mark.parametrize(("package", "names"), CONFIGURATION.items())
def test_configuration_is_imported_without_torch(package: str, names: str) -> None:
    assert heavy_after(f"from {package} import {names}") == "[]"


def test_every_preset_and_every_method_is_configured_without_torch() -> None:
    code = """
from pars import methods, run
from pars.noise import NoiseConfig
for preset in run.PRESETS:
    for method in methods.REGISTRY:
        run.plain(run.preset(preset)(NoiseConfig(kind="symmetric", rate=0.4), method))
"""
    assert heavy_after(code) == "[]"


def test_the_package_is_imported_without_torch_and_sets_how_its_threads_wait_first() -> None:
    env = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    code = "import sys, os, pars; print('torch' in sys.modules, os.environ['GOMP_SPINCOUNT'])"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "4000"]


def test_a_lazy_module_has_the_attributes_of_the_real_one() -> None:
    assert lazy.torch.Tensor is torch.Tensor
    assert lazy.nn.Linear is torch.nn.Linear
    assert lazy.F.one_hot is torch.nn.functional.one_hot
    assert sys.modules["torch"] is torch
    with pytest.raises(AttributeError, match="no attribute 'tensr'"):
        lazy.torch.tensr  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("package", LAZY)
def test_lazy_names_are_the_ones_that_type_checkers_see(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__file__ is not None
    block = next(node for node in ast.parse(Path(module.__file__).read_text()).body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert module._lazy == seen
    assert set(seen) <= set(module.__all__) <= set(dir(module))
    for name, (source, original) in seen.items():
        assert getattr(module, name) is getattr(importlib.import_module(str(source)), original)


@pytest.mark.parametrize("package", LAZY)
def test_a_name_that_is_also_that_of_a_file_stays_what_it_was(package: str) -> None:
    """As `run.train`, which is in run/train.py: whoever imported the file first must not get it instead."""
    module = importlib.import_module(package)
    for found in pkgutil.iter_modules(module.__path__, f"{package}."):
        importlib.import_module(found.name)
    assert [name for name in module.__all__ if isinstance(getattr(module, name), ModuleType)] == []


def test_a_file_imported_first_does_not_hide_the_function_of_its_name() -> None:
    code = "import pars.run.train, pars.engine.plan; from pars import engine, run; print(run.train, engine.plan)"
    assert run_python(code).count("<function") == 2


def test_an_unknown_name_of_a_lazy_package_is_named() -> None:
    with pytest.raises(AttributeError, match=r"module 'pars.run' has no attribute 'trian'"):
        pars.run.trian  # type: ignore[attr-defined]  # noqa: B018


def test_a_lazy_name_may_have_another_name_in_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("package_for_a_test")
    monkeypatch.setitem(sys.modules, package.__name__, package)
    import_lazily(package.__name__, {"math": "floor as below, ceil"})
    assert (package.below(1.5), package.ceil(1.5)) == (1, 2)


def test_a_run_leaves_the_compiler_of_torch_alone(tmp_path: Path) -> None:
    # Its import takes seconds, and nothing is compiled.
    code = "from pars.cli import main; assert main(sys.argv[1:]) == 0; assert 'torch._dynamo' not in sys.modules"
    flags = ["--preset", "digits", "--model.name", "mlp", "--train.epochs", "1", "--out", str(tmp_path / "run")]
    run_python(f"import sys\n{code}", "train", *flags)
