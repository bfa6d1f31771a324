"""Tasks for Label Studio, with the suggestion as a prediction, and the labeling configuration they need."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

from pars import __version__
from pars.audit.export.content import Content
from pars.audit.report import AuditReport


def as_label_studio(report: AuditReport, rows: Iterable[int], content: Content | None = None) -> str:
    """A JSON array of tasks, to be imported into a project with `label_studio_config`.

    The Data Manager sorts suspects by the column `label_right_prob`; a prediction's `score` is that of the suggestion.
    """
    tasks = [task(report, int(row), content or Content()) for row in rows]
    return json.dumps(tasks, indent=1, ensure_ascii=False) + "\n"


def task(report: AuditReport, row: int, content: Content) -> dict[str, Any]:
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
    """The XML of a project: names of tags as in the tasks, choices spelled exactly like the classes.

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
