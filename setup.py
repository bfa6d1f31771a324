"""Writes the commit that a package is built from into it: `pars --version` shows it. All else is in pyproject.toml.

In a clone the commit comes from git. An sdist has no git, so it carries a file COMMIT.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent


def commit() -> str:
    """The commit of this source tree, with a + where files differ from it; "unknown" where nothing says."""
    if (ROOT / "COMMIT").is_file():
        return (ROOT / "COMMIT").read_text(encoding="ascii").strip()
    try:
        found = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude", "*"]
        return subprocess.run(found, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


class BuildWithCommit(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "pars" / "_commit.py"
            target.write_text(f'"""Written when the package was built."""\n\nCOMMIT = "{commit()}"\n', encoding="ascii")


class SdistWithCommit(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        (Path(base_dir) / "COMMIT").write_text(commit() + "\n", encoding="ascii")


setup(cmdclass={"build_py": BuildWithCommit, "sdist": SdistWithCommit})
