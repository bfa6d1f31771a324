"""Runs and comparisons of runs as tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pars.report.read import Run
from pars.report.summary import WEIGHTS, grouped, summary

BLOCKS = "▁▂▃▄▅▆▇█"
UNKNOWN = "–"
# The fields of [model] that each network uses; the others are in the file with their defaults.
NETWORK_FIELDS = {
    "preact_resnet18": ("name", "width"),
    "small_cnn": ("name", "width"),
    "fast_cnn": ("name", "width", "whitening"),
    "mlp": ("name", "hidden", "batch_norm", "dropout"),
    "linear": ("name",),
}
SELECTION_ROWS = {
    "selected": "selected rows",
    "pseudo_accuracy": "pseudo-label accuracy",
    "pseudo_accuracy_selected": "  selected rows",
    "pseudo_accuracy_unselected": "  unselected rows",
    "labels_right_selected": "correct labels, selected rows",
    "labels_right_unselected": "correct labels, unselected rows",
    "memorized": "wrong labels memorized",
}


def overview(run: Run, *, defaults: Mapping[str, Any] | None = None) -> Group:
    """Return a run's configuration, accuracies, stages and selection as tables.

    defaults: as in `summary`; without it all hyper-parameters are listed, not only the changed ones.
    """
    facts = summary(run, defaults=defaults)
    parts: list[Table | Text] = [_configuration_table(facts)]
    if facts["test"] or facts["holdout"]:
        parts += [_accuracy_table(facts), _curve_line(facts["curve"])]
    if facts["stages"]:
        parts.append(_stages_table(facts))
    if any(stage["selection"] for stage in facts["stages"]):
        parts.append(_selection_table(facts))
    return Group(*parts)


def comparison_table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the test accuracy of several runs; `results` maps names to result.json. The best is bold."""
    table = Table(title="test accuracy (%)", title_justify="left", title_style="bold", box=None)
    table.add_column("method")
    keys = {"last": "last", "last10": "mean of last 10", "best": "best (optimistic)"}
    for heading in keys.values():
        table.add_column(heading, justify="right")
    accuracies = {name: result.get("test", {}).get("ema", {}) for name, result in results.items()}
    columns = [_best_in_bold([of_run.get(key) for of_run in accuracies.values()]) for key in keys]
    for name, *cells in zip(accuracies, *columns, strict=True):
        table.add_row(Text(name), *cells)
    return table


def budget_table(rows: Sequence[Mapping[str, Any]], *, title: str) -> Table:
    """Return the runs of compare.json as a table. The best accuracy of each column is bold."""
    keys = {"last": "last", "ema": "EMA", "best": "best", "holdout": "held-out"}
    table = Table(title=title, title_justify="left", title_style="bold", box=None, caption_justify="left")
    table.add_column("method")
    for heading in ("lr", "epochs", "PFLOP", *keys.values()):
        table.add_column(heading, justify="right", no_wrap=True)
    columns = [_best_in_bold([row.get(key) for row in rows]) for key in keys]
    for row, *cells in zip(rows, *columns, strict=True):
        epochs = "diverged" if row.get("diverged") else str(row["epochs"]) + ("*" if "stopped" in row else "")
        flop = UNKNOWN if "flop" not in row else f"{row['flop'] / 1e15:.3g}"
        table.add_row(Text(str(row["method"])), f"{row['lr']:g}", epochs, flop, *cells)
    notes = [
        "last: test accuracy (%) of the last epoch. EMA: the same with averaged weights.",
        "best: EMA, best epoch chosen on the test set (optimistic). held-out: EMA, on held-out given labels.",
    ]
    if any("stopped" in row for row in rows):
        notes.append("* stopped: one more epoch would have exceeded the budget")
    table.caption = Text("\n".join(notes), "dim not italic")
    return table


def format_flop(flop: float, stages: Mapping[str, float], budget: float = 0.0) -> str:
    """Return FLOP spent in PFLOP, with the budget and the cost of each stage.

    >>> format_flop(2.94e14, {"warm-up": 0.27e14, "main": 2.67e14}, 0.3)
    '0.294 of 0.3 PFLOP (warm-up 0.027, main 0.267)'
    """
    of = f" of {budget:g}" if budget else ""
    parts = ", ".join(f"{stage} {spent / 1e15:.3g}" for stage, spent in stages.items())
    return f"{flop / 1e15:.3g}{of} PFLOP" + (f" ({parts})" if len(stages) > 1 else "")


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """Return a curve as at most `width` block characters, scaled from its lowest to its highest value.

    If there are more values than characters, each character shows the last value of its stretch.

    >>> sparkline([1, 2, 3, 8])
    '▁▂▃█'
    """
    count = min(width, len(values))
    shown = [values[(index + 1) * len(values) // count - 1] for index in range(count)]
    low, high = min(values), max(values)
    if high == low:
        return BLOCKS[-1] * count
    return "".join(BLOCKS[round((value - low) / (high - low) * (len(BLOCKS) - 1))] for value in shown)


def _configuration_table(facts: Mapping[str, Any]) -> Table:
    data, epochs, cost = facts["data"], facts["epochs"], facts["cost"]
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    rows = f"{grouped(data['rows'])} rows, {grouped(data['labeled'])} labeled, {data['classes']} classes"
    held_out = f", {_percent(100 * data['holdout'])} of the labels held out" if data["holdout"] else ""
    state = "finished" if facts["finished"] else "not finished"
    done = f"{epochs['done']} of {epochs['planned']} epochs, {state}"
    flop = format_flop(cost["flop"], cost["flop_by_stage"], cost["budget_pflop"])
    stopped = "; stopped: one more epoch would exceed the budget" if cost["stopped"] == "budget" else ""
    # As Text: a name may hold brackets, which rich would take for markup.
    for name, value in (
        ("run", facts["run"]),
        ("data", f"{data['name']}: {rows}{held_out}"),
        ("noise", _format_noise(facts["noise"])),
        ("method", _format_method(facts["method"])),
        ("network", _format_network(facts["model"])),
        ("seed", str(facts["seed"])),
        ("training", f"{done} · {grouped(cost['images'])} images, {flop}{stopped}"),
    ):
        table.add_row(name, Text(value))
    return table


def _format_noise(noise: Mapping[str, Any]) -> str:
    kind = noise["kind"] + (f" ({noise['convention']})" if noise["convention"] else "")
    nominal = "" if noise["rate"] is None else f", nominal rate {_percent(100 * noise['rate'])}"
    realized = noise["realized_rate"]
    if realized is None:
        return f"{kind}{nominal}; the true labels are not known"
    return f"{kind}{nominal}, realized {_percent(100 * realized, 2)} of {grouped(noise['n_labeled'])} labels wrong"


def _format_method(method: Mapping[str, Any]) -> str:
    if "changed" in method:
        changed = _format_settings(method["changed"])
        return f"{method['kind']} with {changed}" if changed else f"{method['kind']} with default hyper-parameters"
    return f"{method['kind']}: {_format_settings(method['parameters'])}"


def _format_network(model: Mapping[str, Any]) -> str:
    fields = NETWORK_FIELDS.get(model.get("name", ""), tuple(model))  # "auto", or a network unknown here: all fields
    return _format_settings({key: value for key, value in model.items() if key in fields})


def _format_settings(settings: Mapping[str, Any]) -> str:
    """`key = value` of each; the name of a network stands alone."""
    return ", ".join(str(value) if key == "name" else f"{key} = {_format(value)}" for key, value in settings.items())


def _format(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as in TOML
    return f"{value:g}" if isinstance(value, float) else str(value)


def _accuracy_table(facts: Mapping[str, Any]) -> Table:
    table = Table(title="\naccuracy (%)", title_justify="left", title_style="bold", caption_justify="left", box=None)
    for name in ("", "last", "mean of last 10", "best", "at epoch"):
        table.add_column(name, justify="right" if name else "left", no_wrap=bool(name))
    for split, name in (("test", "test"), ("holdout", "held-out labels")):
        for weights, description in WEIGHTS.items():
            if facts[split] and weights in facts[split]:
                numbers = facts[split][weights]
                shown = [f"{numbers[key]:.2f}" for key in ("last", "last10", "best")]
                headline = "bold" if (split, weights) == ("test", "ema") else ""
                table.add_row(f"{name}, {description}", *shown, str(numbers["best_epoch"]), style=headline)
    table.caption = Text("best: best epoch, chosen on the same labels it is measured on (optimistic)", "dim not italic")
    return table


def _curve_line(curve: Mapping[str, Any]) -> Text:
    """The accuracy curve on one line of at most 80 columns."""
    values, epochs = curve["ema"], curve["epochs"]
    return Text.assemble(
        f"{min(values):.1f} {sparkline(values, width=48)} {max(values):.1f}",
        (f"  epochs {epochs[0]} to {epochs[-1]}", "dim"),
    )


def _stages_table(facts: Mapping[str, Any]) -> Table:
    """Accuracies at each stage's last epoch, and how many given labels are predicted: all, correct, wrong ones."""
    table = Table(title="\nlast epoch of each stage (%)", title_justify="left", title_style="bold", box=None)
    table.add_column("stage")
    for name in ("epoch", "test", "held-out", "labels predicted", "correct ones", "wrong ones"):
        table.add_column(name, justify="right")
    for stage in facts["stages"]:
        accuracies = [_decimal(stage[split]["ema"], 2) if split in stage else UNKNOWN for split in ("test", "holdout")]
        rows = stage.get("rows", {})
        predicted = [
            _decimal(rows[group]["label_is_predicted"]) if group in rows else UNKNOWN
            for group in ("labeled", "right", "wrong")
        ]
        table.add_row(stage["stage"], str(stage["epoch"]), *accuracies, *predicted)
    return table


def _selection_table(facts: Mapping[str, Any]) -> Table:
    """Percentages in the first and last epoch of each stage; rows that no stage has (no true labels) are left out."""
    table = Table(
        title="\nselection (%), first → last epoch of the stage",
        title_justify="left",
        title_style="bold",
        box=None,
        min_width=48,
    )
    table.add_column("")
    columns = []
    for stage in facts["stages"]:
        for name, percentages in stage["selection"].items():
            table.add_column(f"{stage['stage']}: {name}", justify="right")
            columns.append(percentages)
    for key, words in SELECTION_ROWS.items():
        if any(column[at][key] is not None for column in columns for at in ("first", "last")):
            table.add_row(words, *(f"{_decimal(c['first'][key])} → {_decimal(c['last'][key])}" for c in columns))
    return table


def _best_in_bold(values: Sequence[float | None]) -> list[Text]:
    """Two decimals of each; compared as shown, so that runs that look equal are both best."""
    cells = [_decimal(value, 2) for value in values]
    best = max((cell for cell in cells if cell != UNKNOWN), key=float, default="")
    return [Text(cell, "bold" if cell == best else "") for cell in cells]


def _decimal(value: float | None, digits: int = 1) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def _percent(value: float, digits: int | None = None) -> str:
    return f"{value:g} %" if digits is None else f"{value:.{digits}f} %"
