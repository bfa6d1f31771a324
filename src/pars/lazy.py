"""torch, imported when it is first used: flags, listings and `--help` must not wait seconds for it.

Modules that define methods, losses and views write `from pars.lazy import torch` instead of `import torch`, so that
hyper-parameters and published settings can be read without it. A type checker sees torch itself.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["F", "nn", "torch"]


class _LazyModule(ModuleType):
    """Stands for a module in the namespace of its user, never in sys.modules; each attribute is looked up once."""

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
