"""Everything a report says, read from the folder of a fit or of a run, as plain values for the template."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from pars import audit, data, report
from pars.audit import AuditReport, Content
from pars.classic import CLASSIC, is_classic_folder
from pars.errors import UserError
from pars.fit_folder import JOB, PLAIN, RESULT, ROBUST, ROWS, fit_of
from pars.html_report.charts import Interval, Line, histogram, interval_chart, line_chart
from pars.html_report.rows import Rows, ShownRow, printed
from pars.report import Run, by_stage

MOST_CLASSES = 15  # in the table and the heat map
MOST_SUSPECTS, FEWEST_SUSPECTS = 100, 10
Z = 1.96
UNITS = (("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6))
Groups = list[tuple[str, npt.NDArray[np.bool_], str]]


@dataclass(frozen=True)
class Figure:
    """A chart with its title, its legend (text and CSS class) and a sentence below."""

    title: str
    chart: Markup
    legend: Sequence[tuple[str, str]] = ()
    caption: str = ""


@dataclass(frozen=True)
class Card:
    """One of the numbers at the top. tone: "good", "bad" or ""."""

    name: str
    value: str
    detail: str
    tone: str = ""


@dataclass(frozen=True)
class ClassRow:
    """A class in the table of worst classes; `wrong` is a fraction of its labels."""

    name: str
    labels: int
    wrong: float
    confusion: str


@dataclass(frozen=True)
class HeatMap:
    """P(given | true) of some classes: names of rows and columns, and cells [row][column]."""

    names: Sequence[str]
    cells: Sequence[Sequence[float]]
    left_out: int


@dataclass(frozen=True)
class Suspect:
    """A row whose label is probably wrong."""

    rank: int
    row: int
    id: str
    given: str
    suggested: str
    right: str
    suggested_prob: str
    why: str
    shown: ShownRow


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    subtitle: str
    cards: Sequence[Card] = ()
    notes: Sequence[str] = ()  # what is missing, and why; warnings of the audit
    facts: Sequence[tuple[str, str]] = ()
    helped: Figure | None = None
    verdict: str = ""
    gains: Sequence[tuple[str, str, str, str]] = ()  # labels it is judged by, robust, plain, difference
    heat: HeatMap | None = None
    classes: Sequence[ClassRow] = ()
    suspects: Sequence[Suspect] = ()
    flagged: int = 0
    pictures: bool = False  # suspects are shown as a grid of pictures
    curves: Sequence[Figure] = ()
    histograms: Sequence[Figure] = ()
    histogram_groups: str = ""
    settings: Sequence[tuple[str, Sequence[tuple[str, str]]]] = ()
    commands: Sequence[str] = ()


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
    method = str(job.get("method", "the robust method"))
    title = f"Labels of {fit.resolve().name}"
    verdict, gains, helped = _helped(result, method, same_cost=not classic)
    rows = _rows_of_fit(fit, draft)
    page = Page(
        title=title,
        subtitle=f"{method} compared with plain training" + ("" if classic else " at the same cost"),
        cards=[*_help_card(result), *_audit_cards(found, None if robust is None else robust)],
        facts=_fit_facts(fit, job, robust, found, result),
        helped=helped,
        verdict=verdict,
        gains=gains,
        curves=_fit_curves(method, robust, plain),
        settings=[("fit", _pairs(job)), *([] if robust is None else _settings(robust.config))],
        commands=_fit_commands(fit, job, result),
    )
    page = _with_audit(page, found, audit.content_of_run(fit), rows, top)
    if robust is not None:
        page = replace(page, **_histograms(robust, found))
    elif found is not None:
        page = replace(page, **_classic_histograms(fit / ROBUST, found))
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
        facts=_run_facts(facts),
        verdict="A single run is not compared with plain training; pars fit and pars compare do that.",
        curves=_run_curves(run),
        settings=_settings(run.config),
        commands=[f"pars train --config {shlex.quote(str(path / 'config.toml'))} --out NEW"],
    )
    rows = Rows() if found is None else _rows_of_run(path, len(found), draft)
    page = _with_audit(page, found, None, rows, top)
    return replace(page, **_histograms(run, found), notes=[*draft.notes, *page.notes])


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
        pictures=rows.is_picture,
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


# Curves and histograms


def _fit_curves(method: str, robust: Run | None, plain: Run | None) -> list[Figure]:
    named = [
        (name, run, css) for name, run, css in ((method, robust, "blue"), ("plain training", plain, "orange")) if run
    ]
    figures = []
    costs = [line["flop"] for _, run, _ in named for line in run.metrics]
    for split, title in (("test", "Accuracy on right labels"), ("holdout", "Agreement with held-out labels")):
        measured = [(name, [line for line in run.metrics if split in line], css) for name, run, css in named]
        measured = [(name, lines, css) for name, lines, css in measured if lines]
        if not measured or not max(costs, default=0.0):
            continue
        unit, scale = _unit(max(costs))
        lines = [
            Line(name, [e["flop"] / scale for e in epochs], [e[split]["ema"] for e in epochs], css)
            for name, epochs, css in measured
        ]
        legend = [(f"{line.name}: {line.y[-1]:.1f} % last, {max(line.y):.1f} % best", line.css) for line in lines]
        chart = line_chart(lines, x_label=f"training cost ({unit})", y_label="%")
        kept = "" if split == "test" else "Plain training keeps the weights of its best epoch."
        figures.append(Figure(title, chart, legend, kept))
    if robust is not None:
        figures += _selection_figure(robust)
    return figures


def _unit(flop: float) -> tuple[str, float]:
    """A unit in which so many floating-point operations are a handy number, and how many it has."""
    return next((unit for unit in UNITS if flop >= 0.1 * unit[1]), UNITS[-1])


def _run_curves(run: Run) -> list[Figure]:
    kinds = (
        ("test", "ema", "test set, averaged weights", "blue"),
        ("test", "raw", "test set, raw weights", "sky"),
        ("holdout", "ema", "held-out given labels, averaged weights", "orange"),
    )
    lines = []
    for split, weights, name, css in kinds:
        measured = [line for line in run.metrics if split in line]
        if measured:
            lines.append(Line(name, [e["epoch"] for e in measured], [e[split][weights] for e in measured], css))
    figures = []
    if lines:
        chart = line_chart(lines, x_label="epoch", y_label="accuracy (%)", ends=_stage_ends(run))
        figures.append(Figure("Accuracy", chart, [(f"{line.name}: {line.y[-1]:.1f} %", line.css) for line in lines]))
    return figures + _selection_figure(run)


def _selection_figure(run: Run) -> list[Figure]:
    lines = []
    for name, words, css in (("raw", "of the labeled batch", "blue"), ("pseudo", "of the self-training batch", "sky")):
        chosen = [(e["epoch"], e["selection"][name]) for e in run.metrics if name in e["selection"]]
        shares = [(epoch, 100 * s["selected"] / s["rows"]) for epoch, s in chosen if s["rows"]]
        if shares:
            lines.append(Line(words, [epoch for epoch, _ in shares], [share for _, share in shares], css))
    if not lines:
        return []
    chart = line_chart(lines, x_label="epoch", y_label="selected rows (%)", ends=_stage_ends(run))
    above = "" if run.tau is None else f"Rows whose confidence is above τ = {run.tau:g}."
    return [Figure("Selected rows", chart, [(line.name, line.css) for line in lines], above)]


def _stage_ends(run: Run) -> list[tuple[str, float]]:
    return [(lines[-1]["stage"], float(lines[-1]["epoch"])) for lines in by_stage(run.metrics)[:-1]]


def _groups(n: int, run: Run | None, found: AuditReport | None) -> tuple[Groups, str]:
    """Rows with right and wrong labels: as known, else as the audit has it."""
    if run is not None and run.labels.true is not None and run.labels.wrong.any():
        groups = [("right labels", run.labels.correct, "blue"), ("wrong labels", run.labels.wrong, "orange")]
        return groups, "Labels are right or wrong by their known truth."
    if found is not None and len(found) == n:
        wrong = found.is_label_issue
        groups = [
            ("labels likely right", (found.given >= 0) & ~wrong, "blue"),
            ("labels likely wrong", wrong, "orange"),
        ]
        return groups, "Labels are likely wrong where the audit flags them."
    labeled = np.ones(n, dtype=bool) if run is None else run.labels.labeled
    return [("all labels", labeled, "blue")], ""


def _histograms(run: Run, found: AuditReport | None) -> dict[str, Any]:
    groups, words = _groups(len(run.labels.given), run, found)
    legend = [(f"{name} ({int(rows.sum())})", css) for name, rows, css in groups]
    figures = []
    for stage, record in run.stages.items():
        where = f"End of {stage}, epoch {record.epoch}"
        confidence = histogram(
            record.confidence, groups, x_label="confidence (highest class probability)", mark=run.tau
        )
        figures.append(Figure(f"{where}: confidence", confidence, legend))
        given = histogram(record.given_label_confidence, groups, x_label="probability of the given label")
        figures.append(Figure(f"{where}: given label", given, legend))
    return {"histograms": figures, "histogram_groups": words}


def _classic_histograms(folder: Path, found: AuditReport) -> dict[str, Any]:
    """Of a method without stages: its out-of-fold probabilities."""
    from pars.classic import load_fit  # torch

    evidence = load_fit(folder).evidence()
    p, given = evidence["late"], evidence["given"]
    groups, words = _groups(len(p), None, found)
    legend = [(f"{name} ({int(rows.sum())})", css) for name, rows, css in groups]
    confidence = histogram(p.max(axis=1), groups, x_label="confidence (highest class probability)")
    of_label = histogram(p[np.arange(len(p)), given.clip(0)], groups, x_label="probability of the given label")
    figures = [Figure("Out-of-fold confidence", confidence, legend), Figure("Given label", of_label, legend)]
    return {"histograms": figures, "histogram_groups": words}


# Facts, settings, commands


def _fit_facts(
    fit: Path, job: Mapping[str, Any], run: Run | None, found: AuditReport | None, result: Mapping[str, Any]
) -> list[tuple[str, str]]:
    method = str(job.get("method"))
    facts = [("folder", str(fit)), ("method", method)]
    if method in CLASSIC:
        facts[1] = ("method", f"{method} ({CLASSIC[method].line.title})")
    if found is not None:
        facts.append(("rows", f"{len(found)} rows, {found.n_labeled} labeled, {len(found.classes)} classes"))
    held_out = result.get("held_out")
    if isinstance(held_out, dict):
        facts.append(("held out", f"{held_out['rows']} labeled rows, not trained on"))
    if run is not None:
        facts += [fact for fact in _run_facts(report.summary(run)) if fact[0] in ("network", "training")]
    if job.get("encoder"):
        facts.append(("encoder", str(job["encoder"])))
    facts.append(("seed", str(job.get("seed"))))
    return [(name, printed(value, 300)) for name, value in facts]


def _run_facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows, noise, cost = facts["data"], facts["noise"], facts["cost"]
    done = f"{facts['epochs']['done']} of {facts['epochs']['planned']} epochs"
    state = "finished" if facts["finished"] else "not finished"
    unit, scale = _unit(cost["flop"])
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


def _settings(config: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    top = {key: value for key, value in config.items() if not isinstance(value, dict)}
    tables = {"run": top} | {key: value for key, value in config.items() if isinstance(value, dict)}
    return [(name, _pairs(table)) for name, table in tables.items()]


def _pairs(table: Mapping[str, Any]) -> list[tuple[str, str]]:
    def words(value: Any) -> str:
        if isinstance(value, dict):
            return ", ".join(f"{key} = {item}" for key, item in value.items())
        return str(value).lower() if isinstance(value, bool) else "–" if value is None else str(value)

    return [(printed(key, 60), printed(words(value), 200)) for key, value in table.items()]


def _fit_commands(fit: Path, job: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    """The command that made the fit, as far as its folder knows it."""
    words = ["pars", "fit", str(result.get("data") or "DATA")]
    for name, value in (job.get("columns") or {}).items():
        words += [f"--{name}", *(map(str, value) if isinstance(value, list) else [str(value)])]
    for key, flag, default in (("method", "--method", "pars"), ("encoder", "--encoder", None), ("seed", "--seed", 0)):
        if job.get(key) != default:
            words += [flag, str(job.get(key))]
    if job.get("encoded_views"):
        words += ["--views", str(job["encoded_views"])]
    return [printed(shlex.join([*words, "--out", str(fit)]), 1000)]


# Rows as people know them


def _rows_of_fit(fit: Path, draft: _Draft) -> Rows:
    content = audit.content_of_run(fit)
    if content is not None and content.values is not None:
        return Rows("image" if content.kind == "image" else "text", content.values)
    try:
        inputs = data.arrays(fit / ROWS).train.inputs
    except (UserError, OSError) as error:
        draft.notes.append(f"Rows are not shown: {error}")
        return Rows()
    return Rows("pixels", inputs) if inputs.ndim == 4 else Rows()


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
