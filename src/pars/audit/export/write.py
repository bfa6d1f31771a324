"""The files of an audit in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from pars import __version__
from pars.audit.export.argilla import as_argilla
from pars.audit.export.content import Content
from pars.audit.export.fiftyone import as_fiftyone
from pars.audit.export.label_studio import as_label_studio, label_studio_config
from pars.audit.export.prodigy import as_prodigy
from pars.audit.export.table import as_csv, write_parquet
from pars.audit.report import AuditReport
from pars.errors import UserError
from pars.files import write_text

TASKS: dict[str, tuple[str, Callable[..., str]]] = {
    "label-studio": ("label-studio.json", as_label_studio),
    "fiftyone": ("fiftyone.json", as_fiftyone),
    "argilla": ("argilla.jsonl", as_argilla),
    "prodigy": ("prodigy.jsonl", as_prodigy),
}
FORMATS = ("csv", "parquet", *TASKS)


def write_audit(
    report: AuditReport,
    folder: str | Path,
    formats: Sequence[str] = ("csv",),
    *,
    top: int | None = None,
    content: Content | None = None,
) -> list[Path]:
    """Write summary.json and the formats named; return what was written.

    Tables hold every row. Tasks for annotators hold the `top` most suspect rows, by default those called an issue.
    """
    for name in formats:
        if name not in FORMATS:
            raise UserError(f"unknown format {name!r}; there are: {', '.join(FORMATS)}")
    content = content or Content()
    content.check(len(report))
    out = Path(folder)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {out}: {error.strerror}") from error
    rows = report.review(top).rows
    written = []
    for name in dict.fromkeys(formats):
        if name == "csv":
            written.append(out / "audit.csv")
            write_text(written[-1], as_csv(report, content))
        elif name == "parquet":
            written.append(out / "audit.parquet")
            write_parquet(report, written[-1], content)
        else:
            file, make = TASKS[name]
            written.append(out / file)
            write_text(written[-1], make(report, rows, content))
        if name == "label-studio":
            written.append(out / "label-studio.xml")
            write_text(written[-1], label_studio_config(report.classes, content))
    written.append(out / "summary.json")
    write_text(written[-1], json.dumps({"pars": __version__, **report.summary()}, indent=2) + "\n")
    return written
