"""Every number in docs/results.md and in README's results table is in the ledger."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pars.bench import COLUMNS, ROWS, between_marks, readme_table, results_page

ROOT = Path(__file__).parents[2]
LEDGER, PAGE, README = ROOT / "results/ledger.jsonl", ROOT / "docs/results.md", ROOT / "README.md"
TITLES = {column.title: key for key, column in COLUMNS.items()}
HEADINGS = {"the epoch that held-out": "selected", "the last epoch": "last", "the best epoch": "best"}


def lines() -> list[dict[str, Any]]:
    return [json.loads(text) for text in LEDGER.read_text().splitlines()]


def expected(scale: str, number: str, row: str, column: str) -> list[float]:
    """The accuracies of a cell's seeds, read from the file without the package."""
    number, row = ("selected", "ce") if row == "ce-early-stopped" else (number, row)
    by_seed = {
        line["seed"]: line[number]["accuracy"]
        for line in lines()
        if (line["scale"], line["row"], line["column"], line["status"]) == (scale, row, column, "ok")
        and number in line
        and "trial" not in line
    }
    return list(by_seed.values())


def test_docs_results_is_what_the_report_makes_of_the_ledger() -> None:
    assert PAGE.read_text() == results_page(lines()), "run `pars bench report`"


def test_every_accuracy_in_docs_results_is_the_mean_over_seeds_in_the_ledger() -> None:
    scale, number, titles, checked = "", "", list[str](), 0
    for line in PAGE.read_text().splitlines():
        if heading := re.match(r"## .*scale `(\w+)`", line):
            scale = heading[1]
        elif line.startswith("### "):
            found = [name for text, name in HEADINGS.items() if line.startswith(f"### Accuracy at {text}")]
            number = found[0] if found else ""
        elif number and line.startswith("| row |"):
            titles = [cell.strip() for cell in line.strip("| ").split(" | ")][2:]
        elif number and (row := re.match(r"\| `(\S+)` \|", line)):
            shown = [cell.strip() for cell in line.strip("| ").split(" | ")][2:]
            for title, text in zip(titles, shown, strict=True):
                values = expected(scale, number, row[1], TITLES[title])
                checked += check(text, values)
    assert checked


def check(text: str, values: list[float]) -> int:
    """Compare "**80.2** ± 0.3 #1 (95.8)" with the values of the seeds; how many numbers were compared."""
    if text.startswith(("–", "failed")):
        assert not values, text
        return 0
    numbers = re.match(r"([\d.]+)(?: ± ([\d.]+))?", text.replace("*", ""))
    assert numbers, text
    assert numbers[1] == f"{fmean(values):.1f}"
    assert numbers[2] == (f"{stdev(values):.1f}" if len(values) > 1 else None)
    return 1


def test_every_number_in_the_results_of_readme_is_in_the_ledger() -> None:
    table = between_marks(README)
    assert table is not None, "README.md has no results between marks; `pars bench report --readme README.md`"
    assert table == readme_table(lines())
    head, _, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines())
    for row, *shown in rows:
        assert row.strip("`") in ROWS
        for title, text in zip(head[1:], shown, strict=True):
            check(text, expected("features", "selected", row.strip("`"), TITLES[title]))
    section = README.read_text().partition("\n## Results")[2].partition("\n## ")[0]
    others = section.replace(table, "")
    assert not re.search(r"\|.*\d\.\d.*\|", others), "a table in README's results that is not from the ledger"
