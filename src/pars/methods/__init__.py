"""Methods by name. One method, one file; `docs/architecture.md` says what a method may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pars.errors import UserError
from pars.methods.base import Batch, Draw, Losses, Method, Selection, Stage, Step, Task
from pars.methods.network import Network
from pars.methods.pars import PARS
from pars.methods.supervised import Supervised


@dataclass(frozen=True)
class Common:
    """What a preset settles for every method that can use it."""

    robust: str = "nce+mae"
    warm_up: int | None = None


REGISTRY: dict[str, Callable[[Common], Method]] = {
    "pars": lambda c: PARS(robust=c.robust, warm_up=c.warm_up),
    "pars-paper": lambda c: PARS.paper(robust=c.robust, warm_up=c.warm_up),
    "ce": lambda c: Supervised(loss="ce"),
    "warmup": lambda c: Supervised(loss=c.robust),
}


def by_name(name: str, *, robust: str = "nce+mae", warm_up: int | None = None) -> Method:
    """The method of that name with its default hyper-parameters."""
    if name not in REGISTRY:
        raise UserError(f"unknown method {name!r}; there are: {', '.join(REGISTRY)}")
    return REGISTRY[name](Common(robust, warm_up))


__all__ = [
    "PARS",
    "REGISTRY",
    "Batch",
    "Draw",
    "Losses",
    "Method",
    "Network",
    "Selection",
    "Stage",
    "Step",
    "Supervised",
    "Task",
    "by_name",
]
