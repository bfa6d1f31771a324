"""The ledger as Markdown: docs/results.md, and the table of README.md between two marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from pars.bench.choice import FEW, Choice, choices
from pars.bench.ledger import Line
from pars.bench.scales import SCALES
from pars.bench.summary import (
    NUMBERS,
    REFERENCE,
    CellSummary,
    Number,
    TableSummary,
    cost,
    paired_t,
    summarize,
    wilcoxon_p,
)
from pars.bench.tables import COLUMNS, ROWS, TABLES, Table
from pars.errors import UserError
from pars.files import write_text

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
README_ROWS = ("ce-early-stopped", "logistic-regression", "warmup", "joint-optim", "dividemix", "sop+", "ssr+", "pars")
README_COLUMNS = ("cifar10-sym-50", "cifar10-sym-80", "cifar10-sym-90", "cifar10-asym-40")
NOT_RUN = "–"


def results_page(lines: Sequence[Line]) -> str:
    """docs/results.md: every table at every scale that has results, then what was not run."""
    out = [
        "# Results",
        "",
        "<!-- Made by `pars bench report`: do not edit. -->",
        "",
        "Test accuracy (%) under the [protocol](protocol.md): mean ± standard deviation over seeds, `#` rank",
        "in the column, then the published number in parentheses (another network, all images: compare the",
        f"order, not the values). `{NOT_RUN}` was not run. Every number is in `results/ledger.jsonl`.",
        "",
    ]
    shown = [(table, scale) for table in TABLES.values() for scale in SCALES if _has_results(lines, table, scale)]
    if not shown:
        return "\n".join([*out, "Nothing was run yet."]) + "\n"
    for table, scale in shown:
        out += [f"## {table.title}, scale `{scale}`", "", *_table_sections(lines, table, scale)]
    missing = [table.title for table in TABLES.values() if not any(shown_table is table for shown_table, _ in shown)]
    if missing:
        out += ["## Not run", "", *(f"- {title}" for title in missing), ""]
    return "\n".join(out).rstrip("\n") + "\n"


def _has_results(lines: Sequence[Line], table: Table, scale: str) -> bool:
    return not summarize(lines, table, scale).is_empty or not summarize(lines, table, scale, "last").is_empty


def _table_sections(lines: Sequence[Line], table: Table, scale: str) -> Iterator[str]:
    for number, about in NUMBERS.items():
        found = summarize(lines, table, scale, number)
        if found.is_empty:
            continue
        yield f"### Accuracy at {about}"
        yield ""
        yield from accuracy_table(found, published=scale != "smoke")  # digits are none of its data
        yield ""
    selected: Number = "selected" if SCALES[scale].held_out else "last"
    found = summarize(lines, table, scale, selected)
    yield f"### Difference to cross-entropy and to `{REFERENCE}`, at {NUMBERS[selected]}"
    yield ""
    yield from difference_table(found)
    yield ""
    if chosen := choices(lines, table, scale):
        yield "### What held-out given labels would have chosen"
        yield ""
        yield from choice_table(chosen)
        yield ""
    for metric, title in (("balanced", "Balanced accuracy"), ("worst_class", "Recall of the worst class")):
        yield f"### {title} at {NUMBERS[selected]}"
        yield ""
        yield from accuracy_table(summarize(lines, table, scale, selected, metric), published=False)  # type: ignore[arg-type]
        yield ""
    yield "### Cost"
    yield ""
    yield from cost_table(lines, table, scale)
    yield ""
    if failures := [(key, cell.failed) for key, cell in found.cells.items() if cell.failed]:
        yield "### Failed cells"
        yield ""
        yield from (f"- `{row}`, {COLUMNS[column].title}: {error}" for (row, column), error in failures)
        yield ""


def accuracy_table(found: TableSummary, *, published: bool = True) -> Iterator[str]:
    """Rows by columns; the highest mean of a column is bold."""
    yield _line(["row", "paper's name", *(COLUMNS[column].title for column in found.table.columns)])
    yield _line(["---"] * (2 + len(found.table.columns)))
    for row in found.table.rows:
        cells = [_cell(found, row, column, published=published) for column in found.table.columns]
        yield _line([f"`{row}`", ROWS[row].title, *cells])


def _cell(found: TableSummary, row: str, column: str, *, published: bool) -> str:
    cell, rank = found.cells[row, column], found.rank(row, column)
    reported = f" ({_reported(cell.published.value)})" if published and cell.published is not None else ""
    if cell.mean is None:
        return ("failed" if cell.failed else NOT_RUN) + reported
    return f"{with_spread(cell, bold=rank == 1)} #{rank}{reported}"


def _reported(value: float) -> str:
    """As it was published: one digit after the point, or two."""
    return f"{value:.2f}".removesuffix("0")


def with_spread(cell: CellSummary, *, bold: bool = False) -> str:
    """Mean ± standard deviation; one seed has no spread."""
    mean = f"**{cell.mean:.1f}**" if bold else f"{cell.mean:.1f}"
    return mean if cell.std is None else f"{mean} ± {cell.std:.1f}"


def difference_table(found: TableSummary) -> Iterator[str]:
    """By row and column: difference to CE on the same seeds; over all columns: difference to PARS and its test."""
    columns = found.table.columns
    yield _line(
        ["row", *(f"{COLUMNS[column].title}, Δ to `ce`" for column in columns), f"Δ to `{REFERENCE}`", "p (Wilcoxon)"]
    )
    yield _line(["---"] * (3 + len(columns)))
    for row in found.table.rows:
        cells = []
        for column in columns:
            over_ce = found.differences(row, "ce", column) if "ce" in found.table.rows else []
            cells.append(_difference(over_ce) if row != "ce" else NOT_RUN)
        over = [
            value
            for column in columns
            if REFERENCE in found.table.rows and row != REFERENCE
            for value in found.differences(row, REFERENCE, column)
        ]
        p = wilcoxon_p(over)
        mean = f"{sum(over) / len(over):+.1f}" if over else NOT_RUN
        yield _line([f"`{row}`", *cells, mean, NOT_RUN if p is None else f"{p:.2g}"])


def _difference(values: Sequence[float]) -> str:
    """Mean difference; a star where a paired t-test over seeds has p < 0.05."""
    if not values:
        return NOT_RUN
    p = paired_t(values)
    return f"{sum(values) / len(values):+.1f}" + ("*" if p is not None and p < 0.05 else "")


def choice_table(chosen: Mapping[str, Choice]) -> Iterator[str]:
    """Points lost to the best row of each column: by always taking PARS, by choosing from a few rows, from all."""
    titles = ["column", "best row", f"always `{REFERENCE}`", f"choice of {len(FEW)}", "choice of all", "chosen"]
    yield f"Points of accuracy lost to the column's best row; chosen from {', '.join(f'`{row}`' for row in FEW)}."
    yield ""
    yield _line(titles)
    yield _line(["---"] * len(titles))
    for column, found in chosen.items():
        lost = [f"{value:.1f}" for value in (found.always, found.few, found.every)]
        names = ", ".join(f"`{row}`" for row in found.chosen)
        yield _line([COLUMNS[column].title, f"`{found.best}` {found.accuracy:.1f}", *lost, names])
    means = [f"{fmean(getattr(found, name) for found in chosen.values()):.2f}" for name in ("always", "few", "every")]
    yield _line(["mean", "", *means, ""])


def cost_table(lines: Sequence[Line], table: Table, scale: str) -> Iterator[str]:
    yield _line(["row", "networks", "TFLOP of training", "core seconds"])
    yield _line(["---"] * 4)
    found = cost(lines, table, scale)
    for row in table.rows:
        if row in found:
            flop, seconds, networks = found[row]
            yield _line([f"`{row}`", str(networks), NOT_RUN if flop is None else f"{flop:.3g}", f"{seconds:.0f}"])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def readme_table(lines: Sequence[Line], scale: str = "features") -> str:
    """The table of README.md: few rows and columns, at the epoch that held-out given labels prefer."""
    table = Table("readme", "", README_COLUMNS, README_ROWS, "table1")
    found = summarize(lines, table, scale)
    out = [_line(["method", *(COLUMNS[column].title for column in README_COLUMNS)])]
    out.append(_line(["---"] * (1 + len(README_COLUMNS))))
    for row in README_ROWS:
        cells = [found.cells[row, column] for column in README_COLUMNS]
        if any(cell.values for cell in cells):
            texts = [
                NOT_RUN if cell.mean is None else with_spread(cell, bold=found.rank(row, column) == 1)
                for cell, column in zip(cells, README_COLUMNS, strict=True)
            ]
            out.append(_line([f"`{row}`", *texts]))
    return "\n".join(out) + "\n"


def between_marks(path: Path) -> str | None:
    """The text of a page between the two marks; none where it has no marks."""
    text = path.read_text(encoding="utf-8")
    if BEGIN not in text:
        return None
    return text.partition(BEGIN)[2].partition(END)[0].strip("\n") + "\n"


def replace_between_marks(path: Path, content: str) -> None:
    """Put a new text between the two marks of a page."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UserError(f"{path} has no lines {BEGIN} and {END} to put the table between")
    write_text(path, f"{before}{BEGIN}\n{content}{END}{after}")
