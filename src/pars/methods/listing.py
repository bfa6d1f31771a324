"""The list of methods as data: what `pars methods` prints and docs/methods.md shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from pars.methods.base import Task
from pars.methods.catalogue import Entry, Setting

EXAMPLE = Task(n_rows=20, n_classes=10, labels=torch.arange(20) % 10, epochs=100)  # stages depend on the epochs


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
    stages = [stage.name for stage in method.stages(EXAMPLE) if stage.epochs]
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
