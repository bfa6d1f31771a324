"""The report shows what the ledger has: means, spreads, ranks, tests, and what was not run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bench.ledgers import failed, result
from pars.bench import TABLES, html_page, readme_table, replace_between_marks, results_page
from pars.bench.choice import choices
from pars.bench.markdown import BEGIN, END
from pars.bench.summary import paired_t, summarize, wilcoxon_p
from pars.errors import UserError

COLUMN = "cifar10-sym-50"
VALUES = {"ce": (60.0, 61.0, 62.5), "pars": (70.0, 71.5, 71.0), "elr+": (65.0, 64.0, 66.0)}


@pytest.fixture
def ledger() -> list[dict[str, Any]]:
    lines = [result(row, COLUMN, seed, value) for row, values in VALUES.items() for seed, value in enumerate(values)]
    return [*lines, failed("mlnt", COLUMN, 0, "a loss is not finite in epoch 3")]


def cells(page: str, heading: str, row: str) -> list[str]:
    section = page.partition(heading)[2]
    line = next(line for line in section.splitlines() if line.startswith(f"| `{row}` |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_cell_has_mean_spread_rank_and_the_published_number(ledger: list[dict[str, Any]]) -> None:
    page = results_page(ledger)
    place = 2 + TABLES["table1"].columns.index(COLUMN)
    for row, rank, published in (("pars", 1, "95.8"), ("elr+", 2, "94.8"), ("ce", 3, "79.4")):
        mean, std = np.mean(VALUES[row]), np.std(VALUES[row], ddof=1)
        shown = cells(page, "### Accuracy at the epoch that held-out", row)[place].replace("*", "")
        # CE stopped early is CE's own selected epoch, and shares its rank.
        assert shown == f"{mean:.1f} ± {std:.1f} #{rank} ({published})"
    assert cells(page, "### Accuracy at the last epoch", "ce")[place] == "59.7 ± 1.3 #4 (79.4)"
    assert cells(page, "### Accuracy at the last epoch", "ce-early-stopped")[place] == "61.2 ± 1.3 #3"


def test_what_was_not_run_and_what_failed_is_shown_as_such(ledger: list[dict[str, Any]]) -> None:
    page = results_page(ledger)
    place = 2 + TABLES["table1"].columns.index(COLUMN)
    heading = "### Accuracy at the epoch that held-out"
    assert cells(page, heading, "mlnt")[place] == "failed (89.3)"
    assert "`mlnt`, CIFAR-10 sym. 50 %: a loss is not finite in epoch 3" in page
    assert cells(page, heading, "dividemix")[place] == "– (94.6)"
    assert "- Table 2: Clothing1M" in page.partition("## Not run")[2]


def test_differences_are_paired_by_seed(ledger: list[dict[str, Any]]) -> None:
    place = 1 + TABLES["table1"].columns.index(COLUMN)
    expected = np.mean(np.subtract(VALUES["pars"], VALUES["ce"]))
    p = stats.ttest_rel(VALUES["pars"], VALUES["ce"]).pvalue
    shown = cells(results_page(ledger), "### Difference to", "pars")[place]
    assert shown == f"{expected:+.1f}" + ("*" if p < 0.05 else "")
    found = summarize(ledger, TABLES["table1"], "features")
    assert paired_t(found.differences("pars", "ce", COLUMN)) == pytest.approx(p)
    assert wilcoxon_p([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == pytest.approx(2 / 2**6)


def test_a_repeated_cell_counts_once_with_its_last_result(ledger: list[dict[str, Any]]) -> None:
    again = result("pars", COLUMN, 0, 80.0, config="other settings")
    found = summarize([*ledger, again], TABLES["table1"], "features")
    assert found.cells["pars", COLUMN].values == {0: 80.0, 1: 71.5, 2: 71.0}


def test_trials_are_no_results(ledger: list[dict[str, Any]]) -> None:
    trial = result("dividemix", COLUMN, 100, 99.0, trial=1)
    assert results_page([*ledger, trial]) == results_page(ledger)


def test_the_html_page_has_the_same_tables_and_figures_and_needs_nothing_else(ledger: list[dict[str, Any]]) -> None:
    lines = [
        *ledger,
        *(result("pars", f"cifar10-sym-{rate}", 0, 95.0 - rate / 2) for rate in (20, 80)),
        *(result(row, "cifar10-asym-40", 0, 75.0) for row in TABLES["figure3"].rows),
        *(result(row, "cifar10-sym-90", 0, 60.0) for row in TABLES["figure4"].rows),
    ]
    page = html_page(lines)
    assert page.count("<svg") == 4
    assert "<td><b>70.8</b> ± 0.8 #1 (95.8)</td>" in page
    assert not re.search(r'(src|href)="http', page)
    assert "<script" not in page


def test_the_table_of_a_page_is_replaced_between_its_marks_only(ledger: list[dict[str, Any]], tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before 1.0\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    replace_between_marks(page, readme_table(ledger))
    text = page.read_text()
    assert text.startswith(f"before 1.0\n\n{BEGIN}\n| method |")
    assert text.endswith(f"|\n{END}\n\nafter\n")
    assert "| `pars` | **70.8** ± 0.8 |" in text
    page.write_text("no marks")
    with pytest.raises(UserError, match="results: begin"):
        replace_between_marks(page, "x")


def test_what_choosing_by_held_out_labels_would_have_cost(ledger: list[dict[str, Any]]) -> None:
    # Two seeds; held-out labels prefer the second-best row in the first seed and the best row in the second.
    values = {"pars": (70.0, 71.0), "sop+": (72.0, 73.0), "joint-optim": (60.0, 60.0), "warmup": (69.0, 70.0)}
    lines = [result(row, COLUMN, seed, value) for row, own in values.items() for seed, value in enumerate(own)]
    lines += [result("logistic-regression", COLUMN, seed, 50.0) for seed in range(2)]
    lines += [result("dividemix", COLUMN, seed, 74.0) for seed in range(2)]
    by_cell = {line["cell"]: line for line in lines}
    by_cell[f"features/{COLUMN}/pars/seed-0"]["selected"]["holdout"] = 49.0
    found = choices(lines, TABLES["table1"], "features")[COLUMN]
    assert (found.best, found.accuracy) == ("dividemix", 74.0)
    assert found.chosen == ("pars", "sop+")
    assert found.always == pytest.approx(74 - 70.5)
    assert found.few == pytest.approx(74 - (70 + 73) / 2)
    assert found.every == pytest.approx(74 - (70 + 74) / 2)
    page = results_page(lines)
    assert "| CIFAR-10 sym. 50 % | `dividemix` 74.0 | 3.5 | 2.5 | 2.0 | `pars`, `sop+` |" in page
    assert choices(ledger, TABLES["table1"], "features") == {}  # one of the few was not run
