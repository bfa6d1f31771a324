"""What was trained, with which settings, and the command that did it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pars import report
from pars.audit import AuditReport
from pars.classic import CLASSIC
from pars.html_report.figures import unit_of
from pars.html_report.rows import printed
from pars.method_api import AUTO
from pars.report import Run


def fit_facts(
    fit: Path, job: Mapping[str, Any], run: Run | None, found: AuditReport | None, result: Mapping[str, Any]
) -> list[tuple[str, str]]:
    method = str(result.get("method") or job.get("method"))
    title = f" ({CLASSIC[method].line.title})" if method in CLASSIC else ""
    asked = result.get("replaced")
    instead = "" if not asked else ", chosen by held-out labels" if asked == AUTO else f", in place of {asked}"
    facts = [("folder", str(fit)), ("method", f"{method}{title}{instead}")]
    if found is not None:
        facts.append(("rows", f"{len(found)} rows, {found.n_labeled} labeled, {len(found.classes)} classes"))
    held_out = result.get("held_out")
    if isinstance(held_out, dict):
        facts.append(("held out", f"{held_out['rows']} labeled rows, not trained on"))
    if run is not None:
        facts += [fact for fact in run_facts(report.summary(run)) if fact[0] in ("network", "training")]
    if job.get("encoder"):
        facts.append(("encoder", str(job["encoder"])))
    facts.append(("seed", str(job.get("seed"))))
    return [(name, printed(value, 300)) for name, value in facts]


def run_facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows, noise, cost = facts["data"], facts["noise"], facts["cost"]
    done = f"{facts['epochs']['done']} of {facts['epochs']['planned']} epochs"
    state = "finished" if facts["finished"] else "not finished"
    unit, scale = unit_of(cost["flop"])
    spent = ", ".join(f"{stage} {flop / scale:.3g}" for stage, flop in cost["flop_by_stage"].items())
    flop = f"{cost['flop'] / scale:.3g} {unit}" + (f" ({spent})" if len(cost["flop_by_stage"]) > 1 else "")
    out = [
        ("folder", facts["run"]),
        ("data", f"{rows['name']}: {rows['rows']} rows, {rows['labeled']} labeled, {rows['classes']} classes"),
        (
            "noise",
            "labels as they came" if noise["kind"] == "none" else f"{noise['kind']}, nominal rate {noise['rate']}",
        ),
        ("method", str(facts["method"]["kind"])),
        ("network", str(facts["model"].get("name"))),
        ("seed", str(facts["seed"])),
        ("training", f"{done}, {state} · {cost['images']} rows seen, {flop}"),
    ]
    return [(name, printed(value, 300)) for name, value in out]


def settings(config: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    top = {key: value for key, value in config.items() if not isinstance(value, dict)}
    tables = {"run": top} | {key: value for key, value in config.items() if isinstance(value, dict)}
    return [(name, pairs(table)) for name, table in tables.items()]


def pairs(table: Mapping[str, Any]) -> list[tuple[str, str]]:
    def words(value: Any) -> str:
        if isinstance(value, dict):
            return ", ".join(f"{key} = {item}" for key, item in value.items())
        return str(value).lower() if isinstance(value, bool) else "–" if value is None else str(value)

    return [(printed(key, 60), printed(words(value), 200)) for key, value in table.items()]
