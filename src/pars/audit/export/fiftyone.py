"""Fields for FiftyOne's samples, as JSON; docs/audit.md has the lines that put them into a dataset."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pars.audit.export.content import Content
from pars.audit.report import AuditReport

TAG = "label_suspect"


def as_fiftyone(report: AuditReport, rows: Iterable[int], content: Content | None = None) -> str:
    """One object per row: the label, the suggestion, and `mistakenness` to sort by."""
    samples = [sample(report, int(row), content or Content()) for row in rows]
    return json.dumps({"classes": list(report.classes), "samples": samples}, indent=1, ensure_ascii=False) + "\n"


def sample(report: AuditReport, row: int, content: Content) -> dict[str, Any]:
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
