"""Write an audit as tables, and as tasks for annotation tools."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import quoteattr

import numpy as np

from pars import __version__
from pars.audit.check import Array
from pars.audit.report import AuditReport, explain_row
from pars.errors import UserError
from pars.files import write_atomically, write_text
from pars.fit_folder import CONTENT, fit_of
from pars.spreadsheet import escape_cell


@dataclass(frozen=True)
class Content:
    """What annotators see of each row: a text, or the path or URL of an image; and an identifier.

    values [n]: texts or images; None if unknown. ids [n]: identifiers, row numbers by default.

    >>> Content("text", ["first", "second"], ids=["a", "b"]).named(1)
    {'text': 'second'}
    """

    kind: Literal["text", "image"] = "text"
    values: Sequence[str] | None = None
    ids: Sequence[str] | None = None

    def id(self, row: int) -> str:
        """The identifier of a row."""
        return str(row) if self.ids is None else str(self.ids[row])

    def shown(self, row: int) -> str:
        """The text or image of a row, or its identifier where neither is known."""
        return f"row {self.id(row)}" if self.values is None else str(self.values[row])

    @property
    def field(self) -> str:
        """The name of the field that holds `shown`: "image" only if there are images."""
        return self.kind if self.values is not None else "text"

    def named(self, row: int) -> dict[str, str]:
        """The text or image of a row under its kind; empty if unknown."""
        return {} if self.values is None else {self.kind: self.shown(row)}


def content_of_run(path: str | Path) -> Content | None:
    """Return the texts or images of a run's rows, if it belongs to a folder of `pars fit`; otherwise None."""
    fit = fit_of(Path(path))
    if fit is None or not (file := fit / CONTENT).exists():
        return None
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        content = Content(found["kind"], found["values"], found["ids"])
        if content.kind not in ("text", "image") or not _are_texts(content.values) or not _are_texts(content.ids):
            raise ValueError("expected texts or images")
        return content
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{file} is damaged ({error!r}), expected an object with kind, values and ids") from None


def _are_texts(values: Any) -> bool:
    return values is None or (isinstance(values, list) and all(isinstance(value, str) for value in values))


EVIDENCE = ("margin_avg", "margin_early", "p_mean", "p_std", "agree", "forget", "first_agree", "knn_agree")


def columns(report: AuditReport, content: Content | None = None) -> dict[str, Array]:
    """Return the columns [n] of audit.csv by name, most suspect rows first and unlabeled ones last.

    The columns that people read come first; evidence that the audit does not have is left out. `is_label_issue`,
    `label_score`, `given_label` and `predicted_label` are the names of cleanlab's Datalab.
    """
    content = content or Content()
    n = len(report.given)
    order = np.argsort(np.where(report.rank > 0, report.rank, n + 1), kind="stable")
    names = np.array([*report.classes, ""], dtype=object)  # -1 selects the empty name
    evidence = {name: report.evidence[name] for name in (*EVIDENCE, "label_used_in_loss") if name in report.evidence}
    found: dict[str, Array] = {
        "rank": report.rank,
        "index": np.arange(n),
        "id": np.array(list(map(str, range(n) if content.ids is None else content.ids)), dtype=object),
        "given_label": names[report.given],
        "suggested_label": names[report.suggested],
        "label_right_prob": report.label_right_prob,
        **({} if content.values is None else {content.kind: np.array(list(content.values), dtype=object)}),
        "why": np.array([explain_row(report, row) for row in range(n)], dtype=object),
        "is_label_issue": report.is_label_issue,
        "suggested_prob": report.suggested_prob,
        "label_score": report.label_right_prob,
        "predicted_label": names[report.predicted],
        "margin": report.margin,
        **evidence,
    }
    return {name: values[order] for name, values in found.items()}


def as_csv(report: AuditReport, content: Content | None = None) -> str:
    """Return the table as CSV for spreadsheets; missing values are empty, and no text is a formula."""
    table = columns(report, content)
    cells = []
    for values in table.values():
        if values.dtype.kind == "f":
            cells.append(["" if np.isnan(value) else f"{value:.6g}" for value in values.tolist()])
        else:
            cells.append([escape_cell(value) if isinstance(value, str) else str(value) for value in values.tolist()])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")  # with "\n", Python 3.11 would not quote a lone "\r"
    writer.writerow(table)
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue()


def write_parquet(report: AuditReport, path: Path, content: Content | None = None) -> None:
    """Write the table as Parquet, atomically; needs pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError("Parquet needs pyarrow: pip install 'pars-lnl[parquet]', or choose csv") from None
    table = pyarrow.table({name: pyarrow.array(v.tolist()) for name, v in columns(report, content).items()})
    write_atomically(path, lambda beside: parquet.write_table(table, str(beside)))


def as_label_studio(report: AuditReport, rows: Iterable[int], content: Content | None = None) -> str:
    """Return Label Studio tasks as a JSON array, for a project with `label_studio_config`.

    In the Data Manager, sort by the column `label_right_prob`. The `score` of a prediction is `suggested_prob`.
    """
    tasks = [_label_studio_task(report, int(row), content or Content()) for row in rows]
    return json.dumps(tasks, indent=1, ensure_ascii=False) + "\n"


def _label_studio_task(report: AuditReport, row: int, content: Content) -> dict[str, Any]:
    given = int(report.given[row])
    choice = {
        "id": f"r{row}",
        "from_name": "label",
        "to_name": content.field,
        "type": "choices",
        "value": {"choices": [report.classes[report.suggested[row]]]},
    }
    return {
        "data": {
            content.field: content.shown(row),
            "pars_id": content.id(row),
            "given_label": report.classes[given] if given >= 0 else "",
            "label_right_prob": round(float(report.label_right_prob[row]), 6) if given >= 0 else None,
            "suspect_rank": int(report.rank[row]),
            "why": report.why[row],
        },
        "predictions": [
            {
                "model_version": f"pars-{__version__}",
                "score": round(float(report.suggested_prob[row]), 6),
                "result": [choice],
            }
        ],
    }


def label_studio_config(classes: Sequence[str], content: Content | None = None) -> str:
    """Return the labeling interface of a Label Studio project as XML; its names match those of the tasks.

    >>> print(label_studio_config(["R&D", "ops"]))
    <View>
      <Text name="text" value="$text"/>
      <Choices name="label" toName="text" choice="single">
        <Choice value="R&amp;D"/>
        <Choice value="ops"/>
      </Choices>
    </View>
    """
    name = (content or Content()).field
    tag = {"text": "Text", "image": "Image"}[name]
    choices = [f"    <Choice value={quoteattr(label)}/>" for label in classes]
    lines = [
        "<View>",
        f'  <{tag} name="{name}" value="${name}"/>',
        f'  <Choices name="label" toName="{name}" choice="single">',
        *choices,
        "  </Choices>",
        "</View>",
    ]
    return "\n".join(lines) + "\n"


TAG = "label_suspect"


def as_fiftyone(report: AuditReport, rows: Iterable[int], content: Content | None = None) -> str:
    """Return FiftyOne samples as JSON: given label, suggested label, and `mistakenness` to sort by."""
    samples = [_fiftyone_sample(report, int(row), content or Content()) for row in rows]
    return json.dumps({"classes": list(report.classes), "samples": samples}, indent=1, ensure_ascii=False) + "\n"


def _fiftyone_sample(report: AuditReport, row: int, content: Content) -> dict[str, Any]:
    given = int(report.given[row])
    suspect = bool(report.is_label_issue[row])
    suggestion = {
        "label": report.classes[report.suggested[row]],
        "confidence": round(float(report.suggested_prob[row]), 6),
    }
    return {
        "id": content.id(row),
        **({"filepath": content.shown(row)} if content.field == "image" else {}),
        "ground_truth": {"label": report.classes[given]} if given >= 0 else None,
        "pars": suggestion,
        "mistakenness": round(1 - float(report.label_right_prob[row]), 6) if given >= 0 else None,
        "mistake": suspect,
        "tags": [TAG] if suspect else [],
    }


def as_argilla(report: AuditReport, rows: Iterable[int], content: Content | None = None) -> str:
    """Return Argilla records as JSON lines, for `dataset.records.log`.

    Pass mapping={"score": "label.suggestion.score", "agent": "label.suggestion.agent"}; the other keys are fields and
    metadata.
    """
    content = content or Content()
    lines = []
    for row in map(int, rows):
        given = int(report.given[row])
        record = {
            "id": content.id(row),
            content.field: content.shown(row),
            "label": report.classes[report.suggested[row]],
            "score": round(float(report.suggested_prob[row]), 6),
            "agent": "pars",
            "given_label": report.classes[given] if given >= 0 else "",
            "suspect_rank": int(report.rank[row]),
        }
        if given >= 0:
            record["label_right_prob"] = round(float(report.label_right_prob[row]), 6)
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    return "".join(lines)


def as_prodigy(report: AuditReport, rows: Iterable[int], content: Content | None = None) -> str:
    """Return Prodigy tasks of the choice interface as JSON lines, with the suggested label preselected.

    Options are the most probable classes and the given one, because a screen does not fit a hundred.
    """
    content = content or Content()
    lines = []
    for row in map(int, rows):
        given = int(report.given[row])
        numbers = report.choices[row].tolist()
        if given >= 0 and given not in numbers:
            numbers.append(given)
        meta: dict[str, object] = {"id": content.id(row), "rank": int(report.rank[row]), "why": report.why[row]}
        if given >= 0:
            meta |= {"given": report.classes[given], "p_right": round(float(report.label_right_prob[row]), 6)}
        task = {
            content.field: content.shown(row),
            "options": [{"id": report.classes[k], "text": report.classes[k]} for k in numbers],
            "accept": [report.classes[report.suggested[row]]],
            "meta": meta,
        }
        lines.append(json.dumps(task, ensure_ascii=False) + "\n")
    return "".join(lines)


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
    """Write summary.json and the given formats into a folder, and return the paths.

    formats: names out of FORMATS. Tables hold every row; tasks for annotators hold the `top` most suspect rows, by
    default those with `is_label_issue`. content: what annotators see of each row.
    """
    for name in formats:
        if name not in FORMATS:
            raise UserError(f"unknown format {name!r}; there are: {', '.join(FORMATS)}")
    content = content or Content()
    for name, values in ((content.kind, content.values), ("ids", content.ids)):
        if values is not None and len(values) != len(report.given):
            raise UserError(f"{len(values)} values of {name}, expected {len(report.given)}: one per row of the audit")
    out = Path(folder)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create the folder {out}: {error.strerror}") from error
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
