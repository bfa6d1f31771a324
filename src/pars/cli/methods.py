"""`pars methods`: what there is to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import show
from pars.method_api import as_markdown, describe
from pars.methods import REGISTRY


def parser() -> Parser:
    out = Parser(prog="pars methods", description="List the methods of `pars train --method NAME`.")
    add_json_flag(out)
    out.add_argument("--markdown", action="store_true", help="print the table of docs/methods.md")
    return out


def command(args: Sequence[str]) -> int:
    options = parser().parse_args(args)
    if options.markdown:
        print(as_markdown(REGISTRY), end="")
        return 0
    show(options.json, [asdict(describe(entry)) for entry in REGISTRY.values()], text)
    return 0


def text() -> str:
    """One line each: a terminal wraps it, a pipe does not."""
    rows = [("method", "paper", "networks", "stages", "cost", "needs", "what it does")]
    for line in map(describe, REGISTRY.values()):
        numbers = (str(line.networks), str(len(line.stages)), f"{line.cost:g}")
        rows.append((line.name, line.paper, *numbers, ", ".join(line.needs) or "–", line.summary))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(
        [*lines, "", "cost: network passes of an epoch of the costliest stage, plain cross-entropy being 1"]
    )
