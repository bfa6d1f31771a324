"""`pars methods`: what there is to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from pars.classic import CLASSIC, markdown_table
from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import show
from pars.method_api import Line, as_markdown, describe
from pars.methods import REGISTRY


def parser() -> Parser:
    out = Parser(prog="pars methods", description="List the methods of `pars train` and `pars fit --method NAME`.")
    add_json_flag(out)
    out.add_argument("--markdown", action="store_true", help="print the table of docs/methods.md")
    return out


def command(args: Sequence[str]) -> int:
    options = parser().parse_args(args)
    if options.markdown:
        print(f"{as_markdown(REGISTRY)}\n{markdown_table()}", end="")
        return 0
    show(options.json, [asdict(line) for line in lines()], text)
    return 0


def lines() -> list[Line]:
    """Every method: networks, and at the end classifiers that are none."""
    return [*map(describe, REGISTRY.values()), *(entry.line for entry in CLASSIC.values())]


def text() -> str:
    """One line each: a terminal wraps it, a pipe does not."""
    rows = [("method", "paper", "networks", "stages", "cost", "needs", "what it does")]
    for line in lines():
        numbers = (str(line.networks), str(len(line.stages)), f"{line.cost:g}")
        rows.append((line.name, line.paper, *numbers, ", ".join(line.needs) or "–", line.summary))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(
        [*table, "", "cost: network passes of an epoch of the costliest stage, plain cross-entropy being 1"]
    )
