"""Packages whose names are imported when they are first used, for those that need torch or matplotlib in part.

>>> from pars import run                                      # reads no module that needs torch
>>> run.train                                                 # reads run/train.py, which does
<function train at ...>
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


class _LazyPackage(ModuleType):
    _lazy: dict[str, tuple[str, str]]  # name -> the module that has it, its name there

    def __getattr__(self, name: str) -> Any:
        if name not in self._lazy:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, original = self._lazy[name]
        value = getattr(importlib.import_module(module), original)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # Python binds each imported module to its package: `run.train` would become the module, not the function.
        if not (name in self._lazy and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._lazy})


def import_lazily(package: str, names: Mapping[str, str]) -> None:
    """Give a package names that are imported when first used.

    names: by module what would follow `import`, as in {"pars.run.load": "Classifier, load_run"}. The package has the
    same imports under `if TYPE_CHECKING:`, for type checkers and readers.
    """
    lazy = {}
    for module, imported in names.items():
        for name in imported.split(", "):
            original, _, alias = name.partition(" as ")
            lazy[alias or original] = (module, original)
    found = sys.modules[package]
    found.__dict__["_lazy"] = lazy
    found.__class__ = _LazyPackage
