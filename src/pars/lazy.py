"""torch, and names that need it, imported when first used: flags, listings and `--help` must not wait seconds for it.

Modules of methods and losses write `from pars.lazy import torch` instead of `import torch`, so that hyper-parameters
and published settings can be read without it. Packages of which only a part needs torch look up that part's names
when they are asked for (`lazy_package`). A type checker sees torch itself and ordinary imports.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["F", "lazy_package", "nn", "torch"]


class _LazyModule(ModuleType):
    """Stands for a module in the namespace of its user, not in sys.modules; each attribute is looked up once."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F
    from torch import nn
else:
    torch, nn, F = map(_LazyModule, ("torch", "torch.nn", "torch.nn.functional"))


class _LazyPackage(ModuleType):
    """A package some of whose names are looked up in its modules when they are first asked for."""

    _lazy: dict[str, tuple[str, str]]  # name -> module, its name there

    def __getattr__(self, name: str) -> Any:
        if name not in self._lazy:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, original = self._lazy[name]
        value = getattr(importlib.import_module(module), original)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # Python binds an imported module to its package: `run.train`, the function, would become `run/train.py`.
        if not (name in self._lazy and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._lazy})


def lazy_package(package: str, imports: Mapping[str, str]) -> None:
    """Give a package names that are imported when first used.

    imports: by module what would follow `import`, as in {"pars.run.load": "Classifier, load_run"}. The package says the
    same to type checkers, in imports under `if TYPE_CHECKING:`.
    """
    lazy = {}
    for module, names in imports.items():
        for name in names.split(", "):
            original, _, alias = name.partition(" as ")
            lazy[alias or original] = (module, original)
    found = sys.modules[package]
    found.__dict__["_lazy"] = lazy
    found.__class__ = _LazyPackage
