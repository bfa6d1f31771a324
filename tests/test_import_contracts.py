"""The layers of docs/architecture.md are contracts: what `make lint` checks does fail for a forbidden import."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FORBIDDEN = {
    "losses/reduce.py": "import pars.engine",
    "engine/trainer.py": "import pars.methods",
    "methods/elr.py": "import pars.engine",
    "report/__init__.py": "import torch",
    "data/__init__.py": "import pars.cli",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and of the contracts."""
    folder = tmp_path_factory.mktemp("contracts")
    shutil.copytree(ROOT / "src" / "pars", folder / "pars", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    env = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run([*command, "--no-cache"], cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_the_package_keeps_its_contracts(package: Path) -> None:
    done = check(package)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(("file", "line"), FORBIDDEN.items())
def test_a_forbidden_import_breaks_a_contract(package: Path, file: str, line: str) -> None:
    path = package / "pars" / file
    before = path.read_text()
    path.write_text(before + f"\n{line}\n")
    try:
        done = check(package)
    finally:
        path.write_text(before)
    assert done.returncode == 1, done.stdout
    assert "1 broken" in done.stdout or "2 broken" in done.stdout
