"""Losses by name: the short text of a config, `"10*nce+mae"`, and the callable it stands for.

A text is a sum of terms, a term is `[weight*]name[(parameter=value,...)]`. The active-passive losses of Ma et al. 2020
need no names of their own: they are `nce+mae`, `nce+rce`, `nfl+mae`, `nfl+rce` with weights.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pars.errors import UserError
from pars.losses.functions import (
    check_gamma,
    check_gce,
    check_imae,
    check_rce,
    check_sce,
    cross_entropy,
    focal,
    gce,
    imae,
    mae,
    nce,
    nfl,
    rce,
    sce,
)

if TYPE_CHECKING:
    from torch import Tensor

BASE_LOSSES: dict[str, Callable[..., Tensor]] = {
    "ce": cross_entropy,
    "focal": focal,
    "gce": gce,
    "imae": imae,
    "mae": mae,
    "nce": nce,
    "nfl": nfl,
    "rce": rce,
    "sce": sce,
}
# The ranges of their parameters: the first thing that each of them checks, here without tensors to call it with.
PARAMETER_CHECKS: dict[str, Callable[..., None]] = {
    "focal": functools.partial(check_gamma, "focal"),
    "gce": check_gce,
    "imae": check_imae,
    "nfl": functools.partial(check_gamma, "nfl"),
    "rce": check_rce,
    "sce": check_sce,
}

# A weight may hold a "+" only as the sign of an exponent: "1e+3*nce" is one term, "nce+3*mae" two.
_TERM = re.compile(
    r"\s*(?:(?P<weight>[^*()+]*(?:(?<=[\d.])[eE]\+\d+\s*)?)\*)?"
    r"\s*(?P<name>[A-Za-z_]\w*)\s*(?:\((?P<parameters>[^()]*)\))?\s*(?P<end>\+|$)"
)


@dataclass(frozen=True)
class Term:
    """One weighted base loss with all its parameters."""

    name: str
    weight: float = 1.0
    parameters: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if self.name not in BASE_LOSSES:
            raise UserError(f"there is no loss {self.name!r}; there are: {', '.join(BASE_LOSSES)}")
        if not 0 <= self.weight < math.inf:
            raise UserError(f"loss {self.name}: the weight must be a finite number >= 0, not {self.weight}")
        known, given = default_parameters(self.name), dict(self.parameters)
        for parameter in given:
            if parameter not in known:
                has = f"it has: {', '.join(known)}" if known else "it has none"
                raise UserError(f"loss {self.name} has no parameter {parameter!r}; {has}")
        if len(given) < len(self.parameters):
            raise UserError(f"loss {self.name}: a parameter is given twice: {self.parameters}")
        # Defaults are written out, so that a stored text means the same when a default changes.
        object.__setattr__(self, "parameters", tuple((known | given).items()))
        try:
            if known:
                PARAMETER_CHECKS[self.name](**dict(self.parameters))
        except ValueError as error:
            raise UserError(f"loss {error}") from None

    def __str__(self) -> str:
        weight = "" if self.weight == 1 else f"{_number_text(self.weight)}*"
        parameters = ",".join(f"{name}={_number_text(value)}" for name, value in self.parameters)
        return f"{weight}{self.name}({parameters})" if parameters else f"{weight}{self.name}"


@dataclass(frozen=True)
class Loss:
    """A weighted sum of base losses, called as `loss(logits [B, K], labels [B]) -> [B]`; `str()` is its text."""

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        if not self.terms:
            raise UserError(f"a loss needs at least one of: {', '.join(BASE_LOSSES)}")

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        first, *others = (
            term.weight * BASE_LOSSES[term.name](logits, labels, **dict(term.parameters)) for term in self.terms
        )
        return sum(others, start=first)

    def __str__(self) -> str:
        return "+".join(map(str, self.terms))


@functools.cache  # methods ask at every step
def parse(text: str) -> Loss:
    """Return the loss a text stands for; a UserError says what is wrong with it and what there is.

    >>> import torch
    >>> loss = parse("10*nce+mae")
    >>> loss(torch.zeros(1, 4), torch.tensor([2]))                        # 10/4 + 3/4
    tensor([3.2500])
    >>> str(loss), str(parse("gce")), str(parse(" 0.50 * nfl + rce(A=-9.21)"))
    ('10*nce+mae', 'gce(q=0.7)', '0.5*nfl(gamma=0.5)+rce(A=-9.21)')
    """
    terms: list[Term] = []
    position, more = 0, True
    while more:
        match = _TERM.match(text, position)
        if match is None:
            raise UserError(
                f"loss {text!r}: cannot read {text[position:]!r}; write [weight*]name[(parameter=value,...)], "
                f"joined by '+', with names from: {', '.join(BASE_LOSSES)}"
            )
        weight = 1.0 if match["weight"] is None else _number(match["weight"], f"loss {text!r}: the weight")
        terms.append(Term(match["name"], weight, _parameters(match["parameters"], text)))
        position, more = match.end(), match["end"] == "+"
    return Loss(tuple(terms))


def default_parameters(name: str) -> dict[str, float]:
    """Return the parameters of a base loss with their defaults.

    >>> default_parameters("sce")
    {'alpha': 0.1, 'beta': 1.0, 'A': -4.0}
    """
    parameters = inspect.signature(BASE_LOSSES[name]).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def _parameters(text: str | None, whole: str) -> tuple[tuple[str, float], ...]:
    if text is None or not text.strip():
        return ()
    pairs = []
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise UserError(f"loss {whole!r}: {part.strip()!r} is not of the form parameter=value")
        pairs.append((name.strip(), _number(value, f"loss {whole!r}: {name.strip()}")))
    return tuple(pairs)


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{what} must be a number, not {text.strip()!r}") from None


def _number_text(value: float) -> str:
    return repr(float(value)).removesuffix(".0")
