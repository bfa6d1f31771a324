"""What there is to say about a method: who wrote it, what it needs and costs, and its published settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from pars.method_api.method import Method, Task
from pars.noise import NoiseConfig

if TYPE_CHECKING:
    from torch import Tensor

AUTO = "auto"  # in place of a method's name: a few are tried, and held-out labels choose
Source = Literal["paper", "code", "readme", "issue", "third-party", "recall", "ours"]
"""Where a value comes from: the method's (or PARS') paper, its public code, that code's README, its author in an issue,
somebody else's code; `recall`: remembered from the paper, not verified; `ours`: chosen here, no publication has it."""


@dataclass(frozen=True)
class Cited:
    """A published value and where it was published."""

    value: Any
    source: Source


paper = partial(Cited, source="paper")
code = partial(Cited, source="code")
readme = partial(Cited, source="readme")
issue = partial(Cited, source="issue")
third_party = partial(Cited, source="third-party")
recall = partial(Cited, source="recall")
ours = partial(Cited, source="ours")


@dataclass(frozen=True)
class Setting:
    """What published hyper-parameters depend on. "small" is everything that nobody has published."""

    data: Literal["small", "cifar10", "cifar100", "clothing1m"] = "small"
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    robust: str | None = None  # the robust loss that suits the data, where that is not PARS' usual one
    tau: float | None = None  # the confidence of PARS that suits the data, where that is not the paper's
    pixels: bool = False  # of "small": a small CNN learns photographs from their pixels, in few epochs

    @property
    def n_classes(self) -> int:
        return {"cifar100": 100, "clothing1m": 14}.get(self.data, 10)

    @property
    def rate(self) -> float:
        """The nominal rate."""
        return 0.0 if self.noise.is_none else self.noise.rate

    @property
    def asymmetric(self) -> bool:
        return not self.noise.is_none and self.noise.kind not in ("symmetric", "file")

    @property
    def wrong(self) -> float:
        """The share of wrong labels: of inclusive symmetric noise some labels stay right by chance."""
        if self.noise.kind == "symmetric" and self.noise.convention == "inclusive":
            return self.rate * (1 - 1 / self.n_classes)
        return self.rate / 2 if self.noise.kind == "asymmetric" and self.data == "cifar10" else self.rate


@dataclass(frozen=True)
class Recipe:
    """A method's settings for a data set and its noise; every value with its source."""

    kind: type[Method]
    method: Mapping[str, Cited] = field(default_factory=dict)  # fields of the method
    train: Mapping[str, Cited] = field(default_factory=dict)  # fields of TrainConfig
    views: Mapping[str, Cited] = field(default_factory=dict)  # fields of ViewsConfig

    def build(self) -> Method:
        return self.kind(**values(self.method))


def values(cited: Mapping[str, Cited]) -> dict[str, Any]:
    return {name: each.value for name, each in cited.items()}


@dataclass(frozen=True)
class Entry:
    """One line of the list of methods."""

    name: str  # as in `--method NAME`
    title: str
    authors: str  # "Liu et al."; empty for what nobody claims
    year: int | None
    link: str  # to the paper
    summary: str  # one sentence
    cost: float
    """Network passes of a main-stage epoch over those of cross-entropy: a forward with backward over the labeled rows
    is 1, a forward alone 1/3; of all networks together."""
    recipe: Callable[[Setting], Recipe]
    tuned: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Hyper-parameters of its own that a search may change, at most two, and their values (docs/protocol.md)."""
    needs: tuple[str, ...] = ()  # beyond rows and labels: "noise rate (estimated if not given)", "strong views"
    differs: str = ""  # from its public code
    robust: bool = True  # made for noisy labels
    aliases: tuple[str, ...] = ()  # what papers call it: an unknown `--method` is looked for here, too
    file: str = ""  # filled in by the registry


@dataclass(frozen=True)
class Line:
    """One method, described."""

    name: str
    title: str
    paper: str
    link: str
    year: int | None
    networks: int
    stages: tuple[str, ...]
    cost: float
    needs: tuple[str, ...]
    summary: str
    differs: str
    file: str


def describe(entry: Entry) -> Line:
    method = entry.recipe(Setting()).build()
    # Stages follow from the epochs. Labels would be a tensor, and a list of methods should not wait for torch.
    task = Task(n_rows=20, n_classes=10, labels=cast("Tensor", None), epochs=100)
    stages = [stage.name for stage in method.stages(task) if stage.epochs]
    return Line(
        name=entry.name,
        title=entry.title,
        paper=f"{entry.authors} {entry.year}" if entry.authors else "–",
        link=entry.link,
        year=entry.year,
        networks=method.networks,
        stages=tuple(dict.fromkeys(stages)),
        cost=round(entry.cost, 2),
        needs=entry.needs,
        summary=entry.summary,
        differs=entry.differs,
        file=f"src/pars/methods/{entry.file}",
    )


def as_markdown(registry: Mapping[str, Entry]) -> str:
    """The table of docs/methods.md."""
    head = "| `--method` | paper | what it does | networks | stages | cost | needs | differs from its public code |"
    lines = [head, "|---|---|---|---|---|---|---|---|"]
    for line in map(describe, registry.values()):
        cells = (
            f"[`{line.name}`](../{line.file})",
            f"[{line.paper}]({line.link})" if line.link else line.paper,
            line.summary,
            str(line.networks),
            ", ".join(line.stages),
            f"{line.cost:g}",
            ", ".join(line.needs) or "–",
            line.differs or "–",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
