"""Records for Argilla 2, one JSON object per line; docs/audit.md has the settings that they need."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pars.audit.export.content import Content
from pars.audit.report import AuditReport


def as_argilla(report: AuditReport, rows: Iterable[int], content: Content | None = None) -> str:
    """Dictionaries as `dataset.records.log` takes them.

    mapping = {"score": "label.suggestion.score", "agent": "label.suggestion.agent"}; the rest are fields and metadata.
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
