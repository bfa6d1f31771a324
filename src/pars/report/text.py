"""A run, and a comparison of runs, as tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pars.report.outcome import WEIGHTS, flop_words, grouped
from pars.report.read import Run
from pars.report.summary import summary

BLOCKS = "▁▂▃▄▅▆▇█"
# What each network reads of [model]; the other fields, there with their defaults, say nothing about it.
NETWORK_FIELDS = {
    "preact_resnet18": ("name", "width"),
    "small_cnn": ("name", "width"),
    "fast_cnn": ("name", "width", "whitening"),
    "mlp": ("name", "hidden", "batch_norm", "dropout"),
    "linear": ("name",),
}
SELECTION_ROWS = {
    "selected": "selected",
    "pseudo_accuracy": "predictions right",
    "pseudo_accuracy_selected": "  of selected",
    "pseudo_accuracy_unselected": "  of unselected",
    "labels_right_selected": "labels right of selected",
    "labels_right_unselected": "labels right of unselected",
    "memorized": "wrong labels predicted",
}


def overview(run: Run, *, defaults: Mapping[str, Any] | None = None) -> Group:
    """What was trained, how it ended, what each stage did. `defaults` as in `summary`; without it all settings show."""
    facts = summary(run, defaults=defaults)
    parts: list[Table | Text] = [trained_table(facts)]
    if facts["test"] or facts["holdout"]:
        parts += [outcome_table(facts), curve_line(facts["curve"])]
    if facts["stages"]:
        parts.append(stages_table(facts))
    if any(stage["selection"] for stage in facts["stages"]):
        parts.append(selection_table(facts))
    return Group(*parts)


def trained_table(facts: Mapping[str, Any]) -> Table:
    data, epochs = facts["data"], facts["epochs"]
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    rows = f"{grouped(data['rows'])} rows, {grouped(data['labeled'])} labeled, {data['classes']} classes"
    held_out = f", {percentage(100 * data['holdout'])} of the labels held out" if data["holdout"] else ""
    state = "finished" if facts["finished"] else "not finished"
    done = f"{epochs['done']} of {epochs['planned']} epochs, {state}"
    spent = facts["cost"]
    flop = flop_words(spent["flop"], spent["flop_by_stage"], spent["budget_pflop"])
    stopped = "; stopped: one more epoch would exceed the budget" if spent["stopped"] == "budget" else ""
    cost = f"{grouped(spent['images'])} images, {flop}{stopped}"
    # As Text: a name may hold brackets, which rich would take for markup.
    for name, words in (
        ("run", facts["run"]),
        ("data", f"{data['name']}: {rows}{held_out}"),
        ("noise", noise_words(facts["noise"])),
        ("method", method_words(facts["method"])),
        ("network", network_words(facts["model"])),
        ("seed", str(facts["seed"])),
        ("training", f"{done} · {cost}"),
    ):
        table.add_row(name, Text(words))
    return table


def noise_words(noise: Mapping[str, Any]) -> str:
    kind = noise["kind"] + (f" ({noise['convention']})" if noise["convention"] else "")
    nominal = "" if noise["rate"] is None else f", nominal {percentage(100 * noise['rate'])}"
    realized = noise["realized_rate"]
    if realized is None:
        return f"{kind}{nominal}; how many labels are wrong is not known"
    return f"{kind}{nominal}, realized {percentage(100 * realized, 2)} of {grouped(noise['n_labeled'])} labels wrong"


def method_words(method: Mapping[str, Any]) -> str:
    if "changed" in method:
        changed = settings_words(method["changed"])
        return f"{method['kind']} with {changed}" if changed else f"{method['kind']}, all settings at their defaults"
    return f"{method['kind']}: {settings_words(method['parameters'])}"


def network_words(model: Mapping[str, Any]) -> str:
    fields = NETWORK_FIELDS.get(model.get("name", ""), tuple(model))  # of "auto", or one not known here: all
    return settings_words({key: value for key, value in model.items() if key in fields})


def settings_words(settings: Mapping[str, Any]) -> str:
    """`name = value` of each; the name of a network stands alone."""
    words = [str(value) if key == "name" else f"{key} = {setting(value)}" for key, value in settings.items()]
    return ", ".join(words)


def setting(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as in TOML
    return f"{value:g}" if isinstance(value, float) else str(value)


def outcome_table(facts: Mapping[str, Any]) -> Table:
    table = Table(title="\naccuracy (%)", title_justify="left", title_style="bold", caption_justify="left", box=None)
    for name in ("", "last", "mean of last 10", "best", "at epoch"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for split, name in (("test", "test"), ("holdout", "held-out labels")):
        for weights, kind in WEIGHTS.items():
            if facts[split] and weights in facts[split]:
                numbers = facts[split][weights]
                shown = [f"{numbers[key]:.2f}" for key in ("last", "last10", "best")]
                headline = "bold" if (split, weights) == ("test", "ema") else ""
                table.add_row(f"{name}, {kind}", *shown, str(numbers["best_epoch"]), style=headline)
    table.caption = Text("best is picked by the same labels it is measured on: optimistic", "dim not italic")
    return table


def curve_line(curve: Mapping[str, Any]) -> Text:
    """The headline curve on one line of at most 80 columns."""
    values, epochs = curve["ema"], curve["epochs"]
    return Text.assemble(
        f"{min(values):.1f} {sparkline(values, width=48)} {max(values):.1f}",
        (f"  epochs {epochs[0]} to {epochs[-1]}", "dim"),
    )


def stages_table(facts: Mapping[str, Any]) -> Table:
    table = Table(title="\nstages at their last epoch (%)", title_justify="left", title_style="bold", box=None)
    table.add_column("stage")
    for name in ("epoch", "test", "held-out", "labels predicted", "right ones", "wrong ones"):
        table.add_column(name, justify="right")
    for stage in facts["stages"]:
        accuracies = [decimal(stage[split]["ema"], 2) if split in stage else "–" for split in ("test", "holdout")]
        rows = stage.get("rows", {})
        agree = [decimal(rows[g]["label_is_predicted"]) if g in rows else "–" for g in ("labeled", "right", "wrong")]
        table.add_row(stage["stage"], str(stage["epoch"]), *accuracies, *agree)
    return table


def selection_table(facts: Mapping[str, Any]) -> Table:
    """Shares in the first and last epoch of each stage; rows that no stage knows (no truth) are left out."""
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
        for name, shares in stage["selection"].items():
            table.add_column(f"{stage['stage']}: {name}", justify="right")
            columns.append(shares)
    for key, words in SELECTION_ROWS.items():
        if any(shares[at][key] is not None for shares in columns for at in ("first", "last")):
            table.add_row(words, *(f"{decimal(s['first'][key])} → {decimal(s['last'][key])}" for s in columns))
    return table


def comparison_table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    """Test accuracy of several runs by name, each as in result.json; the best of each column is bold."""
    table = Table(title="test accuracy (%)", title_justify="left", title_style="bold", box=None)
    table.add_column("method")
    keys = {"last": "last", "last10": "mean of last 10", "best": "best (optimistic)"}
    for heading in keys.values():
        table.add_column(heading, justify="right")
    numbers = {name: result.get("test", {}).get("ema", {}) for name, result in results.items()}
    columns = {key: [decimal(of_run.get(key), 2) for of_run in numbers.values()] for key in keys}
    # Compared as shown: runs that look equal are both best.
    best = {key: max((cell for cell in cells if cell != "–"), key=float, default="") for key, cells in columns.items()}
    for index, name in enumerate(numbers):
        cells = [Text(columns[key][index], "bold" if columns[key][index] == best[key] else "") for key in keys]
        table.add_row(Text(name), *cells)
    return table


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """The curve from its lowest to its highest value in at most `width` blocks, each the last of its stretch of epochs.

    >>> sparkline([1, 2, 3, 8])
    '▁▂▃█'
    """
    count = min(width, len(values))
    shown = [values[(index + 1) * len(values) // count - 1] for index in range(count)]
    low, high = min(values), max(values)
    if high == low:
        return BLOCKS[-1] * count
    return "".join(BLOCKS[round((value - low) / (high - low) * (len(BLOCKS) - 1))] for value in shown)


def decimal(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def percentage(value: float, digits: int | None = None) -> str:
    return f"{value:g} %" if digits is None else f"{value:.{digits}f} %"
