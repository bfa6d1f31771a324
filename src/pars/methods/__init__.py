"""Methods by name. One method, one file; `docs/architecture.md` says what a method may see."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from pars.errors import UserError
from pars.method_api import Entry, Method, Recipe, Setting
from pars.methods import (
    augdesc,
    bootstrap,
    co_teaching,
    co_teaching_plus,
    decoupling,
    disc,
    dividemix,
    elr,
    elr_plus,
    f_correction,
    fixmatch,
    jnpl,
    jocor,
    joint_optim,
    m_correction,
    mentornet,
    mixup,
    mlnt,
    nlnl,
    noise_adaptation,
    pars,
    pars_fast,
    pars_paper,
    pencil,
    pes,
    promix,
    robust_losses,
    selfie,
    sop,
    ssr,
    supervised,
    t_revision,
    unicon,
)
from pars.methods.pars import PARS
from pars.methods.pars_fast import PARSFast
from pars.methods.pars_paper import PARSPaper
from pars.methods.supervised import Supervised

FILES = (
    pars,
    pars_paper,
    pars_fast,
    supervised,
    robust_losses,
    bootstrap,
    f_correction,
    t_revision,
    noise_adaptation,
    mixup,
    decoupling,
    co_teaching,
    co_teaching_plus,
    jocor,
    mentornet,
    selfie,
    pencil,
    joint_optim,
    mlnt,
    m_correction,
    elr,
    dividemix,
    augdesc,
    elr_plus,
    fixmatch,
    nlnl,
    jnpl,
    pes,
    sop,
    disc,
    ssr,
    unicon,
    promix,
)
REGISTRY: dict[str, Entry] = {
    entry.name: replace(entry, file=module.__name__.rpartition(".")[2] + ".py")
    for module in FILES
    for entry in module.ENTRIES
}
SMALL = Setting()
NONE: Mapping[str, Sequence[str]] = MappingProxyType({})


def recipe(name: str, setting: Setting = SMALL) -> Recipe:
    """The published settings of the method of that name, for a data set and its noise."""
    if name not in REGISTRY:
        raise unknown_method(name)
    return REGISTRY[name].recipe(setting)


def unknown_method(name: str, others: Mapping[str, Sequence[str]] = NONE) -> UserError:
    """What to say of an unknown name. `others`: further methods that are known, with their names in papers."""
    close = " or ".join(map(repr, similar_names(name, others)))
    hint = f"did you mean {close}? " if close else ""
    return UserError(f"unknown method {name!r}; {hint}there are: {', '.join([*REGISTRY, *others])}")


def similar_names(name: str, others: Mapping[str, Sequence[str]] = NONE) -> list[str]:
    """The methods whose name, or whose name in papers, is most like this one; several where papers share a name.

    >>> similar_names("elf"), similar_names("P-correction"), similar_names("Bootstrap")
    (['selfie'], ['pencil'], ['bootstrap-soft', 'bootstrap-hard'])
    """
    known: dict[str, list[str]] = {}
    for own, aliases in {**{entry.name: entry.aliases for entry in REGISTRY.values()}, **others}.items():
        for word in (own, *aliases):
            known.setdefault(word.lower(), []).append(own)
    close = difflib.get_close_matches(name.lower(), known, n=1)
    return list(dict.fromkeys(known[close[0]])) if close else []


def by_name(name: str, setting: Setting = SMALL) -> Method:
    """The method of that name with its hyper-parameters for a setting."""
    return recipe(name, setting).build()


__all__ = ["PARS", "REGISTRY", "PARSFast", "PARSPaper", "Supervised", "by_name", "recipe"]
