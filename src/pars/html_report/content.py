"""Everything a report says, read from the folder of a fit or of a run, as plain values for the template."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pars import audit, corrections, data, report
from pars.audit import AuditReport, Content
from pars.classic import is_classic_folder
from pars.corrections import ReviewedRows
from pars.errors import UserError
from pars.fit_folder import JOB, PLAIN, RESULT, ROBUST, ROWS, fit_command, fit_of
from pars.html_report.charts import Interval, interval_chart
from pars.html_report.facts import fit_facts, pairs, run_facts, settings
from pars.html_report.figures import classic_histograms, fit_curves, histograms, run_curves
from pars.html_report.model import Card, ClassRow, Figure, HeatMap, Page, Suspect
from pars.html_report.rows import Rows, printed
from pars.report import Run

MOST_CLASSES = 15  # in the table and the heat map
MOST_SUSPECTS, FEWEST_SUSPECTS = 100, 10
Z = 1.96


@dataclass
class _Draft:
    """A page in the making: notes are added where something is found missing."""

    notes: list[str] = field(default_factory=list)


def read_page(path: Path, *, top: int | None = None) -> Page:
    """The report of a fit's folder, of its robust run, or of a run of `pars train`.

    top: suspects to show; by default the flagged ones, at most MOST_SUSPECTS and at least a few.
    """
    fit = fit_of(path)
    if fit is not None and path.resolve() in (fit.resolve(), (fit / ROBUST).resolve()):
        return _fit_page(fit, top)
    return _run_page(path, top)


def _fit_page(fit: Path, top: int | None) -> Page:
    draft = _Draft()
    job = _read_json(fit / JOB)
    if not isinstance(job, dict):
        raise UserError(f"{fit / JOB} is damaged: expected an object with the settings of the fit")
    result = _read_json(fit / RESULT)
    if not isinstance(result, dict):
        result = {}
        draft.notes.append(f"{RESULT} is missing: run the same `pars fit` command again to measure whether it helped.")
    classic = is_classic_folder(fit / ROBUST)
    robust = None if classic else report.read_run(fit / ROBUST)
    plain = report.read_run(fit / PLAIN) if (fit / PLAIN / "config.toml").exists() else None
    found = _audit_of_fit(fit, draft)
    # What was returned: logistic regression may have taken the place of the method that was asked for.
    method = str(result.get("method") or job.get("method", "the robust method"))
    title = f"Labels of {fit.resolve().name}"
    verdict, gains, helped = _helped(result, method, same_cost=not classic)
    rows = _rows_of_fit(fit, found, draft)
    page = Page(
        title=title,
        subtitle=f"{method} compared with plain training" + ("" if classic else " at the same cost"),
        cards=[*_help_card(result), *_review_card(result), *_audit_cards(found, robust)],
        facts=fit_facts(fit, job, robust, found, result),
        helped=helped,
        verdict=verdict,
        gains=gains,
        review=_review_words(result),
        curves=fit_curves(method, robust, plain),
        settings=[("fit", pairs(job)), *([] if robust is None else settings(robust.config))],
        commands=[printed(shlex.join([*fit_command(fit), "--out", str(fit)]), 1000)],
    )
    page = _with_audit(page, found, audit.content_of_run(fit), rows, top)
    if robust is not None:
        page = replace(page, **histograms(robust, found))
    elif found is not None:
        page = replace(page, **classic_histograms(fit / ROBUST, found))
    return replace(page, notes=[*draft.notes, *page.notes])


def _run_page(path: Path, top: int | None) -> Page:
    draft = _Draft()
    run = report.read_run(path)
    found = None
    try:
        found = audit.audit_run(path)
    except UserError as error:
        draft.notes.append(f"No audit of the labels: {error}")
    facts = report.summary(run)
    split = "test" if facts["test"] else "holdout"
    page = Page(
        title=f"Run {path.resolve().name}",
        subtitle=f"{facts['method']['kind']} on {facts['data']['name']}",
        cards=[*_accuracy_card(run, facts, split), *_audit_cards(found, run)],
        facts=run_facts(facts),
        verdict="A single run is not compared with plain training; pars fit and pars compare do that.",
        curves=run_curves(run),
        settings=settings(run.config),
        commands=[f"pars train --config {shlex.quote(str(path / 'config.toml'))} --out NEW"],
    )
    rows = Rows() if found is None else _rows_of_run(path, len(found), draft)
    page = _with_audit(page, found, None, rows, top)
    return replace(page, **histograms(run, found), notes=[*draft.notes, *page.notes])


def _audit_of_fit(fit: Path, draft: _Draft) -> AuditReport | None:
    from pars import fitting  # torch

    try:
        return fitting.audit_fit(fit)
    except UserError as error:
        draft.notes.append(f"No audit of the labels: {error}")
        return None


# Did it help


def _helped(
    result: Mapping[str, Any], method: str, *, same_cost: bool
) -> tuple[str, list[tuple[str, str, str, str]], Figure | None]:
    names = {
        "clean": "right labels",
        "held_out": "held-out labels as given",
        "noise_corrected": "corrected for wrong held-out labels (estimate)",
    }
    found = {name: result[key] for key, name in names.items() if isinstance(result.get(key), dict)}
    if not found:
        return "", [], None
    gains = [
        (
            f"{name} ({gain['rows']} rows)",
            f"{100 * gain['robust']:.1f} %",
            f"{100 * gain['plain']:.1f} %",
            f"{100 * gain['gain']:+.1f} ({100 * gain['low']:+.1f} to {100 * gain['high']:+.1f})",
        )
        for name, gain in found.items()
    ]
    chart = interval_chart(
        [Interval(name, 100 * gain["gain"], 100 * gain["low"], 100 * gain["high"]) for name, gain in found.items()],
        x_label=f"accuracy of {method} minus plain training (points)",
    )
    verdicts = {
        "helped": f"{method} helped: the 95 % interval of the difference is above 0.",
        "hurt": f"{method} hurt: the 95 % interval of the difference is below 0.",
        "inconclusive": "Inconclusive: the 95 % interval of the difference includes 0. "
        "More held-out rows would narrow it.",
    }
    cost = "at the same cost" if same_cost else "which has no comparable cost"
    figure = Figure("Difference of accuracies", chart, caption=f"Points with 95 % intervals; plain training {cost}.")
    return verdicts.get(str(result.get("verdict")), ""), gains, figure


def _help_card(result: Mapping[str, Any]) -> list[Card]:
    judged = result.get("clean") or result.get("held_out")
    if not isinstance(judged, dict):
        return []
    verdict = str(result.get("verdict"))
    tones = {"helped": "good", "hurt": "bad"}
    words = {"helped": "yes", "hurt": "no", "inconclusive": "inconclusive"}
    detail = (
        f"{100 * judged['gain']:+.1f} points against plain training, "
        f"95 % interval {100 * judged['low']:+.1f} to {100 * judged['high']:+.1f}"
    )
    return [Card("Did it help?", words.get(verdict, verdict), detail, tones.get(verdict, ""))]


def _review_card(result: Mapping[str, Any]) -> list[Card]:
    found = result.get("retraining")
    if not isinstance(found, dict) or found["verdict"] is None:
        return []
    tones = {"better": ("yes", "good"), "worse": ("no", "bad")}
    value, tone = tones.get(found["verdict"], ("inconclusive", ""))
    return [Card("Did your review help?", value, f"{_review_change(found)} against the labels before", tone)]


def _review_words(result: Mapping[str, Any]) -> list[str]:
    found = result.get("retraining")
    if not isinstance(found, dict):
        return []
    counts = (
        f"{found['corrected']} labels corrected, {found['confirmed']} confirmed, {found['dropped']} rows dropped, "
        f"in a review of {printed(found['reviewed'], 300) or 'another fit'}."
    )
    if found["verdict"] is None:
        return [counts, f"What it changed cannot be judged: {printed(found['reason'], 400)}"]
    rows = "test rows" if found["judged_by"] == "test" else "rows with right labels that were not trained on"
    return [
        counts,
        f"Accuracy before and after: {100 * found['before']:.1f} % and {100 * found['after']:.1f} % of "
        f"{found['rows']} {rows} ({_review_change(found)}).",
    ]


def _review_change(found: Mapping[str, Any]) -> str:
    interval = f"{100 * found['low']:+.1f} to {100 * found['high']:+.1f}"
    return f"{100 * found['change']:+.1f} points, 95 % interval {interval}"


def _accuracy_card(run: Run, facts: Mapping[str, Any], split: str) -> list[Card]:
    if not facts[split]:
        return []
    accuracy = facts[split]["ema"]["last"]
    name = "Test accuracy" if split == "test" else "Agreement with held-out labels"
    n = _judged_rows(run, split)
    detail = f"averaged weights, epoch {facts['epochs']['done']}"
    if n:
        low, high = wilson(accuracy / 100, n)
        detail += f"; 95 % interval {100 * low:.1f} to {100 * high:.1f} ({n} rows)"
    return [Card(name, f"{accuracy:.1f} %", detail)]


def _judged_rows(run: Run, split: str) -> int:
    if split == "holdout":
        return round(float(run.config["data"].get("holdout", 0.0)) * int(run.labels.labeled.sum()))
    recorded = _read_json(run.path / "inputs.json")
    try:
        return int(recorded["data"]["test"]["rows"])
    except (KeyError, TypeError, ValueError):
        return 0


def wilson(share: float, n: int) -> tuple[float, float]:
    """The 95 % interval of a share of n (Wilson 1927).

    >>> low, high = wilson(0.9, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    z = Z * Z / n
    middle, half = share + z / 2, Z * math.sqrt(share * (1 - share) / n + z / (4 * n))
    return (middle - half) / (1 + z), (middle + half) / (1 + z)


# The audit


def _audit_cards(found: AuditReport | None, run: Run | None) -> list[Card]:
    cards = []
    if found is not None:
        review = found.review()
        low, high = 100 * found.noise_rate_low, 100 * found.noise_rate_high
        cards.append(
            Card(
                "Wrong labels",
                f"{100 * found.noise_rate:.1f} %",
                f"estimate; plausible range {low:.1f} to {high:.1f} %",
            )
        )
        expected = f"expect {100 * review.expected_precision:.0f} % of them to be wrong" if len(review) else ""
        cards.append(Card("Flagged rows", f"{len(review)}", f"of {found.n_labeled} labels; {expected}".rstrip("; ")))
    if run is not None and run.labels.true is not None:
        wrong, known = int(run.labels.wrong.sum()), int((run.labels.wrong | run.labels.correct).sum())
        if known:
            cards.append(Card("Known wrong labels", f"{100 * wrong / known:.1f} %", f"of {known} whose truth is known"))
    return cards


def _with_audit(page: Page, found: AuditReport | None, content: Content | None, rows: Rows, top: int | None) -> Page:
    if found is None:
        return page
    flagged = len(found.review())
    shown = min(MOST_SUSPECTS, max(FEWEST_SUSPECTS, flagged)) if top is None else top
    return replace(
        page,
        heat=_heat_map(found),
        classes=_worst_classes(found),
        suspects=[_suspect(found, int(row), content, rows) for row in found.suspects[:shown]],
        flagged=flagged,
        shows_images=rows.is_image,
        notes=[*page.notes, *(f"{words[0].upper()}{words[1:]}." for words in found.warnings)],
    )


def _suspect(found: AuditReport, row: int, content: Content | None, rows: Rows) -> Suspect:
    return Suspect(
        rank=int(found.rank[row]),
        row=row,
        id="" if content is None or content.id(row) == str(row) else printed(content.id(row), 60),
        given=printed(found.classes[found.given[row]], 60),
        suggested=printed(found.classes[found.suggested[row]], 60),
        right=_percent(float(found.label_right_prob[row])),
        suggested_prob=_percent(float(found.suggested_prob[row])),
        why=printed(audit.explain_row(found, row), 400),
        shown=rows.shown(row),
    )


def _percent(share: float) -> str:
    """Such as "<1 %", with a space that does not break."""
    return audit.percent(share).replace(" ", "\N{NO-BREAK SPACE}")


def _worst_classes(found: AuditReport) -> list[ClassRow]:
    order = np.argsort(-np.nan_to_num(found.class_error * found.class_rows, nan=-1.0), kind="stable")
    out = []
    for k in order[:MOST_CLASSES].tolist():
        if not found.class_rows[k] or np.isnan(found.class_error[k]):
            continue
        sources = [pair for pair in found.confused if pair.given == found.classes[k]]
        words = ", ".join(f"{pair.true} ({pair.expected_rows:.0f})" for pair in sources[:3])
        out.append(
            ClassRow(
                printed(found.classes[k], 60),
                int(found.class_rows[k]),
                float(found.class_error[k]),
                printed(words, 160),
            )
        )
    return out


def _heat_map(found: AuditReport) -> HeatMap:
    """All classes, or those that take part in most of the expected wrong labels; in the order of the classes."""
    matrix = found.transition_matrix
    k = len(matrix)
    off = matrix * (1 - np.eye(k)) * np.maximum(found.class_rows, 1)[:, None]
    chosen = np.sort(np.argsort(-(off.sum(axis=0) + off.sum(axis=1)), kind="stable")[:MOST_CLASSES])
    names = [printed(found.classes[index], 40) for index in chosen]
    return HeatMap(names, matrix[np.ix_(chosen, chosen)].tolist(), k - len(chosen))


# Rows as people know them


def _rows_of_fit(fit: Path, found: AuditReport | None, draft: _Draft) -> Rows:
    content = audit.content_of_run(fit)
    if content is not None and content.values is not None:
        return Rows("image" if content.kind == "image" else "text", content.values)
    try:
        rows = data.arrays(fit / ROWS).train
        if rows.is_image:
            return Rows("pixels", rows.inputs)
        if found is None or (source := corrections.source_of_fit(fit)) is None:
            return Rows()
        reviewed = ReviewedRows(
            found.classes, found.given, found.suggested, found.label_right_prob, checked=rows.checked
        )
        table = corrections.read_source(source, reviewed)
    except (UserError, OSError) as error:
        draft.notes.append(f"Rows are not shown: {error}")
        return Rows()
    return Rows() if table.columns is None else Rows("columns", columns=table.columns)


def _rows_of_run(path: Path, n: int, draft: _Draft) -> Rows:
    """Pixels of the rows of a run, where its data are at hand and are those it was trained on."""
    from pars import run  # torch

    try:
        found = run.training_inputs(path, download=False)
    except (UserError, OSError) as error:
        draft.notes.append(f"Rows are not shown: {error}")
        return Rows()
    return Rows("pixels", found) if found.ndim == 4 and len(found) == n else Rows()


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
