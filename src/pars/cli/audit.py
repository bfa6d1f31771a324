"""`pars audit RUN`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pars import audit
from pars.cli.flags import Parser
from pars.cli.output import add_json_flag, show
from pars.cli.streams import say
from pars.errors import UserError

if TYPE_CHECKING:
    from pars.audit import AuditReport

SHOWN = 20


def command(args: Sequence[str]) -> int:
    parser = Parser(
        prog="pars audit",
        description="Which labels of a run's training rows are wrong, and what they should be. Writes the list.",
    )
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--out", type=Path, help="folder for the files (default: RUN/audit)")
    parser.add_argument("--format", default="csv", help=f"files to write, with commas: {', '.join(audit.FORMATS)}")
    parser.add_argument(
        "--top", type=int, metavar="N", help="rows to show, and to export for annotators (default: those called wrong)"
    )
    parser.add_argument(
        "--neighbours", action="store_true", help="ask each row's nearest neighbours, too; needs the run's data"
    )
    add_json_flag(parser)
    options = parser.parse_args(args)
    if options.top is not None and options.top < 1:
        raise UserError(f"--top is {options.top}, expected 1 or more")
    formats = [name.strip() for name in options.format.split(",")]
    report = audit.audit_run(options.run, features=features(options.run) if options.neighbours else None)
    for path in audit.write_audit(report, options.out or options.run / "audit", formats, top=options.top):
        say(f"wrote {path}")
    show(options.json, as_json(report, options.top), lambda: overview(report, options.top or SHOWN))
    return 0


def features(path: Path) -> Any:
    from pars import run  # torch

    return run.row_features(path)


def as_json(report: AuditReport, top: int | None) -> dict[str, Any]:
    rows = report.review(top).rows
    suspects = [
        {
            "row": int(row),
            "given_label": report.classes[report.given[row]],
            "suggested_label": report.classes[report.suggested[row]],
            "label_right_prob": float(report.label_right_prob[row]),
        }
        for row in rows
    ]
    return report.summary() | {"suspects": suspects}


def overview(report: AuditReport, top: int) -> Group:
    """The whole in a few lines, then the most suspect rows."""
    review = report.review()
    rate = f"{100 * report.noise_rate:.1f} %"
    between = f"plausibly {100 * report.noise_rate_low:.1f} to {100 * report.noise_rate_high:.1f} %"
    lines = [f"{rate} of {report.n_labelled} labels are wrong ({between})"]
    if len(review):
        precision, recall = f"{100 * review.expected_precision:.0f} %", f"{100 * review.expected_recall:.0f} %"
        lines.append(f"{len(review)} rows are called wrong: expect {precision} of them to be; {recall} of all wrong")
    if report.confused:
        pairs = [f"{pair.true} as {pair.given} ({pair.expected_rows:.0f})" for pair in report.confused[:5]]
        lines.append(f"most confused: {', '.join(pairs)}")
    lines += [f"warning: {words}" for words in report.warnings]
    lines.append("check before you delete: of a test set, never drop flagged rows unseen")
    return Group(*(Text(line) for line in lines), suspects_table(report, top))


def suspects_table(report: AuditReport, top: int) -> Table:
    table = Table(title="\nmost suspect", title_justify="left", title_style="bold", box=None)
    for name in ("row", "given", "suggested", "right", "why"):
        table.add_column(name, justify="right" if name in ("row", "right") else "left", overflow="fold")
    for row in report.suspects[:top]:
        given, suggested = report.classes[report.given[row]], report.classes[report.suggested[row]]
        right = f"{100 * report.label_right_prob[row]:.1f} %"
        table.add_row(str(row), Text(given), Text(suggested), right, Text(report.why[row]))
    return table
