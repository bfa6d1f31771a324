"""Methods by name. One method, one file; `docs/architecture.md` says what a method may see."""

from __future__ import annotations

import difflib
from dataclasses import replace

from pars.errors import UserError
from pars.method_api import Entry, Method, Recipe, Setting
from pars.methods import (
    bootstrap,
    co_teaching,
    co_teaching_plus,
    decoupling,
    disc,
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
    robust_losses,
    selfie,
    sop,
    ssr,
    supervised,
    t_revision,
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
    elr_plus,
    fixmatch,
    nlnl,
    jnpl,
    pes,
    sop,
    disc,
    ssr,
)
REGISTRY: dict[str, Entry] = {
    entry.name: replace(entry, file=module.__name__.rpartition(".")[2] + ".py")
    for module in FILES
    for entry in module.ENTRIES
}
SMALL = Setting()


def recipe(name: str, setting: Setting = SMALL) -> Recipe:
    """The published settings of the method of that name, for a data set and its noise."""
    if name not in REGISTRY:
        close = difflib.get_close_matches(name.lower(), REGISTRY, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise UserError(f"unknown method {name!r}; {hint}there are: {', '.join(REGISTRY)}")
    return REGISTRY[name].recipe(setting)


def by_name(name: str, setting: Setting = SMALL) -> Method:
    """The method of that name with its hyper-parameters for a setting."""
    return recipe(name, setting).build()


__all__ = ["PARS", "REGISTRY", "PARSFast", "PARSPaper", "Supervised", "by_name", "recipe"]
