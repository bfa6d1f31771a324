"""Tasks for Prodigy's choice interface, one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pars.audit.export.content import Content
from pars.audit.report import AuditReport


def as_prodigy(report: AuditReport, rows: Iterable[int], content: Content | None = None) -> str:
    """Options are the most probable classes and the given one: a screen holds no hundred. The suggestion is ticked."""
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
