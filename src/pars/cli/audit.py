"""`pars audit RUN`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pars import audit
from pars.classic import is_classic_folder
from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import printable, say, show
from pars.cli.suspects import APPLY_HELP, apply_rule, next_steps, rule
from pars.corrections import source_of_fit
from pars.errors import UserError
from pars.files import expanded
from pars.fit_folder import ROBUST, fit_command, fit_of, run_of

OUTPUTS = ("audit", "summary", "corrections", "corrected")
"""How files that are written begin."""

if TYPE_CHECKING:
    from pars.audit import AuditReport, Content


def command(args: Sequence[str]) -> int:
    parser = Parser(
        prog="pars audit",
        description="Which labels of a run's training rows are wrong, and what they should be. Writes the list.",
    )
    parser.add_argument("run", type=expanded, help="the run's folder, or that of `pars fit`")
    parser.add_argument("--out", type=expanded, help="folder for the files (default: RUN/audit)")
    parser.add_argument("--format", default="csv", help=f"files to write, with commas: {', '.join(audit.FORMATS)}")
    parser.add_argument(
        "--top",
        type=int,
        metavar="N",
        help="rows to show and to export for annotators (default: the flagged ones; ten are shown)",
    )
    parser.add_argument(
        "--neighbors", action="store_true", help="ask each row's nearest neighbors, too; needs the run's data"
    )
    parser.add_argument("--apply", metavar="above=P", type=rule, help=APPLY_HELP)
    add_json_flag(parser)
    options = parser.parse_args(args)
    if options.top is not None and options.top < 1:
        raise UserError(f"--top is {options.top}, expected 1 or more")
    formats = [name.strip() for name in options.format.split(",")]
    content = audit.content_of_run(options.run)
    report = report_of(options.run, options.neighbors)
    folder = options.out or options.run / "audit"
    fit = fit_of(options.run)
    source = source_of_fit(options.run)
    if source is not None and source.path.resolve().parent == folder.resolve() and source.path.stem in OUTPUTS:
        raise UserError(f"{source.path} has the rows themselves and would be lost; choose another --out")
    made_by = ["pars", "train", "--config", str(options.run / "config.toml")] if fit is None else fit_command(fit)
    for path in audit.write_audit(report, folder, formats, top=options.top, content=content):
        say(f"wrote {path}")
    ending = [overview(report, options.top, content)]
    if options.apply is not None:
        ending.append(apply_rule(report, content, options.run, folder, options.apply))
    any_flagged = bool(report.is_label_issue.any())
    ending.append(next_steps(options.run if fit is None else fit, made_by, any_flagged=any_flagged))
    show(options.json, as_json(report, options.top, content), lambda: "\n".join(ending))
    return 0


def report_of(path: Path, neighbors: bool) -> AuditReport:
    """Of a run, or of a fit as `pars fit` itself audits it."""
    folder = run_of(path)
    fit = fit_of(path)
    if neighbors and not is_classic_folder(folder):
        from pars import run  # torch

        return audit.audit_run(folder, features=run.row_features(folder))
    if fit is None or folder.resolve() != (fit / ROBUST).resolve():
        return audit.audit_run(folder)
    from pars import fitting  # torch

    return fitting.audit_fit(fit)


def as_json(report: AuditReport, top: int | None, content: Content | None = None) -> dict[str, Any]:
    rows = report.review(top).rows
    suspects = [
        {
            "row": int(row),
            "given_label": report.classes[report.given[row]],
            "suggested_label": report.classes[report.suggested[row]],
            "label_right_prob": float(report.label_right_prob[row]),
            **({} if content is None else {"id": content.id(row), **content.named(row)}),
        }
        for row in rows
    ]
    return report.summary() | {"suspects": suspects}


def overview(report: AuditReport, top: int | None, content: Content | None = None) -> str:
    """The whole in a few lines, then the most suspect rows."""
    review = report.review()
    lines = [report.headline]
    if len(review):
        precision, recall = f"{100 * review.expected_precision:.0f} %", f"{100 * review.expected_recall:.0f} %"
        between = f"{100 * review.expected_precision_low:.0f} to {100 * review.expected_precision_high:.0f} %"
        lines.append(
            f"{len(review)} are flagged as wrong: expected precision {precision} (range {between}), "
            f"expected recall {recall}."
        )
    if report.confused:
        pairs = [f"{name(pair.true)} as {name(pair.given)} ({pair.expected_rows:.0f})" for pair in report.confused[:5]]
        lines.append(f"Most confused: {', '.join(pairs)}")
    lines += [f"warning: {shortened(words, end=False, most=1000)}" for words in report.warnings]
    lines.append("Check flagged rows before you delete them. Never drop flagged rows of a test set unchecked.")
    if len(review) or top is not None:
        lines.append(audit.suspects_text(report, top, content))
    return "\n".join(lines)


def name(label: str) -> str:
    """A class name as a table can show it."""
    return shortened(label, end=False, most=40)


def shortened(text: str, *, end: bool, most: int = 100) -> str:
    r"""The beginning on one line, or the end: that of a path tells it from others.

    >>> shortened("to be\nor not to be", end=False, most=9), shortened("/a/long/way/to/b.png", end=True, most=9)
    ('to be or…', '…to/b.png')
    """
    line = printable(" ".join(text.split()))
    if len(line) <= most:
        return line
    return f"…{line[1 - most :]}" if end else f"{line[: most - 1]}…"
