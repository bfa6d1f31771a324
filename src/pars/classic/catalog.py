"""The list of classifiers that are not networks; read without torch or scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pars.classic.logistic_regression import LogisticRegression
from pars.classic.model import ClassicSettings
from pars.classic.wann import WANN
from pars.errors import UserError
from pars.method_api import Line
from pars.methods import REGISTRY, similar_names, unknown_method

FILE = "classic.safetensors"  # of a fit, in its folder


@dataclass(frozen=True)
class ClassicEntry:
    """What `pars methods` says of a classifier, and its hyper-parameters."""

    line: Line
    settings: type[ClassicSettings]
    tuned: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Hyper-parameters that a search may change, and their values (docs/protocol.md)."""
    aliases: tuple[str, ...] = ()  # what else it is called: an unknown `--method` is looked for here, too


def _entry(
    settings: type[ClassicSettings],
    file: str,
    tuned: Mapping[str, tuple[Any, ...]] | None = None,
    aliases: tuple[str, ...] = (),
    **about: str | int | None,
) -> ClassicEntry:
    defaults = {"networks": 0, "stages": ("fit",), "cost": 0.0, "needs": ("feature vectors",)}
    line = Line(**defaults | about, file=f"src/pars/classic/{file}")  # type: ignore[arg-type]
    return ClassicEntry(line, settings, tuned or {}, aliases)


CLASSIC: dict[str, ClassicEntry] = {
    entry.line.name: entry
    for entry in (
        _entry(
            WANN,
            "wann.py",
            {"k_min": (5, 11, 21), "k_max": (51, 101, 201)},
            aliases=("Weighted Adaptive Nearest Neighbors", "Adaptive weighted nearest neighbors"),
            name="wann",
            title="Weighted Adaptive Nearest Neighbors",
            paper="Di Salvo et al. 2024",
            link="https://arxiv.org/abs/2408.14358",
            year=2024,
            summary="nearest neighbors, each weighted by 1/k, k being how many neighbors it takes to confirm its label",
            differs="features are standardized (`standardize`); a row is never its own neighbor, even of duplicates",
        ),
        _entry(
            LogisticRegression,
            "logistic_regression.py",
            aliases=("L2 logistic regression", "Linear probe"),
            name="logistic-regression",
            title="Logistic regression",
            paper="–",
            link="",
            year=None,
            summary="logistic regression with the L2 penalty that predicts given labels best, by cross-validation",
            differs="",
        ),
    )
}


def names() -> dict[str, tuple[str, ...]]:
    """The names, each with what else it is called."""
    return {name: entry.aliases for name, entry in CLASSIC.items()}


def check_known(name: str) -> None:
    """A UserError where a name is neither of a method nor of a classifier without a network."""
    if name not in REGISTRY and name not in CLASSIC:
        raise unknown_method(name, names())


def check_has_epochs(name: str) -> None:
    """A UserError where a name is, or is nearly, that of a classifier that `pars train` cannot train."""
    meant = [name] if name in REGISTRY else similar_names(name, names())
    if meant and meant[0] in CLASSIC:
        unknown = "" if name in CLASSIC else f"unknown method {name!r}; did you mean {meant[0]!r}? "
        raise UserError(
            f"{unknown}{meant[0]} is not a network trained in epochs; `pars fit DATA --method {meant[0]}` and "
            f"pars.RobustClassifier({meant[0]!r}) fit it"
        )


def is_classic_folder(folder: Path) -> bool:
    """Whether a folder holds a fit of `save_fit`, rather than a run."""
    return (folder / FILE).exists()


def markdown_table() -> str:
    """The second table of docs/methods.md."""
    lines = ["| `--method` | paper | what it does | needs | differs from its public code |", "|---|---|---|---|---|"]
    for line in (entry.line for entry in CLASSIC.values()):
        paper = f"[{line.paper}]({line.link})" if line.link else line.paper
        cells = (f"[`{line.name}`](../{line.file})", paper, line.summary, ", ".join(line.needs), line.differs or "–")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
