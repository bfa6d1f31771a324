"""The search for settings: the same trials for every row, judged by held-out given labels; the choices as a TOML file.

docs/protocol.md says what is tuned and how it is chosen. A trial is a cell that never sees the test set.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from pars import seeds
from pars.bench.ledger import Line
from pars.bench.scales import SCALES, Cell, Scale, Settings
from pars.bench.tables import COLUMNS, ROWS, Row
from pars.classic import CLASSIC
from pars.errors import UserError
from pars.files import write_text
from pars.methods import REGISTRY

TRIALS = 8
SEED = 100  # of the development settings: no cell of a table has it
_HEAD = "# Settings chosen by `pars bench tune` from trials on held-out given labels (docs/protocol.md).\n\n"


def development_columns(data: str) -> tuple[str, str]:
    """The two columns that settings of a data set are chosen on: one symmetric, one structured."""
    return f"{data}-sym-50", f"{data}-asym-40"


def own_values(method: str) -> Mapping[str, tuple[Any, ...]]:
    """The method's own hyper-parameters that are tuned, from its file."""
    return CLASSIC[method].tuned if method in CLASSIC else REGISTRY[method].tuned


def trials(scale: Scale, method: str, count: int = TRIALS) -> list[Settings]:
    """The settings of each trial. The first are the preset's own; those of the others are balanced over the values.

    Learning rate, weight decay and length of trial i are the same for every method of a scale.

    >>> [len(trials(SCALES["features"], name)) for name in ("pars", "ce", "wann", "logistic-regression")]
    [8, 8, 9, 1]
    """
    own = own_values(method)
    if method in CLASSIC:
        product: list[dict[str, Any]] = [{}]
        for name, values in own.items():
            product = [{**settings, name: value} for settings in product for value in values]
        return [{"method": settings} if settings else {} for settings in product]
    shared = {"lr": scale.lr, "weight_decay": scale.weight_decay, "length": scale.length}
    drawn = {name: _balanced(values, count, name) for name, values in {**shared, **own}.items()}
    out: list[Settings] = [{}]
    for trial in range(1, count):
        train = {name: drawn[name][trial] for name in ("lr", "weight_decay")}
        settings = {"length": drawn["length"][trial], "train": train}
        out.append(settings | ({"method": {name: drawn[name][trial] for name in own}} if own else {}))
    return out


def _balanced(values: Sequence[Any], count: int, name: str) -> list[Any]:
    """`count` values in random order, each as often as the others, up to one."""
    draw = seeds.generator(SEED, f"bench-tuning-{name}")
    order: list[int] = []
    while len(order) < count:
        order += draw.permutation(len(values)).tolist()
    return [values[index] for index in draw.permutation(order[:count]).tolist()]


def trial_cells(scale: str, rows: Sequence[Row], data: Sequence[str], count: int = TRIALS) -> list[Cell]:
    """The trials of rows that have settings of their own, row by row: a choice needs all trials of its row."""
    if not SCALES[scale].is_tuned:
        raise UserError(f"--scale {scale} has its published settings: nothing is tuned")
    keys = dict.fromkeys(row.tuned_key for row in rows)
    return [
        Cell(scale, column, key, SEED, settings, trial)
        for name in data
        for key in keys
        if is_tuned(key)
        for trial, settings in enumerate(trials(SCALES[scale], ROWS[key].method, count))
        for column in development_columns(name)
    ]


def is_tuned(row: str) -> bool:
    """Whether a row has trials: logistic regression has none, it chooses its penalty in every fit."""
    method = ROWS[row].method
    return method not in CLASSIC or bool(own_values(method))


@dataclass(frozen=True)
class Tuned:
    """Settings by scale, data set and row."""

    choices: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)

    def of(self, scale: str, column: str, row: Row) -> Settings:
        """The settings of a cell; the preset's own where none were chosen. An ablation keeps what makes it one."""
        choice = self.choices.get(scale, {}).get(COLUMNS[column].data, {}).get(row.tuned_key, {})
        return {key: choice[key] for key in ("length", "train", "method") if key in choice}

    def lacks(self, scale: str, column: str, row: Row) -> bool:
        """Whether a row that is tuned has no choice yet."""
        return is_tuned(row.tuned_key) and row.tuned_key not in self.choices.get(scale, {}).get(
            COLUMNS[column].data, {}
        )


def choose(lines: Sequence[Line], before: Tuned, count: int = TRIALS) -> Tuned:
    """The best trial of every row of which all trials are there; other rows keep the choice they had."""
    scores: dict[tuple[str, str, str], dict[int, dict[str, float | None]]] = {}
    settings: dict[tuple[str, str, str, int], Settings] = {}
    for line in lines:
        if "trial" not in line:
            continue
        key = line["scale"], COLUMNS[line["column"]].data, line["row"]
        known = trials(SCALES[line["scale"]], ROWS[line["row"]].method, count)
        if line["trial"] >= len(known) or known[line["trial"]] != line["settings"]:
            continue  # of another search
        of_trial = scores.setdefault(key, {}).setdefault(line["trial"], {})
        if line["status"] == "ok":
            of_trial[line["column"]] = line["selected"]["holdout"]
        else:
            of_trial.setdefault(line["column"], None)
        settings[(*key, line["trial"])] = line["settings"]
    out = {scale: {data: dict(rows) for data, rows in by_data.items()} for scale, by_data in before.choices.items()}
    for (scale, data, row), by_trial in scores.items():
        columns = development_columns(data)
        wanted = len(trials(SCALES[scale], ROWS[row].method, count))
        if len(by_trial) < wanted or any(set(columns) - set(found) for found in by_trial.values()):
            continue
        means = {}
        for trial, found in by_trial.items():
            values = [value for column in columns if (value := found[column]) is not None]
            if len(values) == len(columns):
                means[trial] = sum(values) / len(values)
        if not means:
            continue
        best = min(means, key=lambda trial: (-means[trial], trial))
        choice = {"trial": best, "trials": wanted, "holdout": round(means[best], 2), "default": means.get(0)}
        if choice["default"] is not None:
            choice["default"] = round(choice["default"], 2)
        chosen = {key: value for key, value in choice.items() if value is not None}
        out.setdefault(scale, {}).setdefault(data, {})[row] = {**settings[scale, data, row, best], **chosen}
    return Tuned(out)


def read_tuned(path: Path) -> Tuned:
    """The choices in a file; none where there is no file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Tuned()
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    for scale, by_data in content.items():
        rows = [row for by_row in by_data.values() for row in by_row] if isinstance(by_data, dict) else []
        unknown = [key for key in rows if key not in ROWS] + ([] if scale in SCALES else [scale])
        if unknown:
            raise UserError(f"{path}: {unknown[0]!r} is neither a scale nor a row of pars bench")
    return Tuned(content)


def write_tuned(path: Path, tuned: Tuned) -> None:
    """Write the choices, sorted, so that a file changes only where a choice did."""
    content = {
        scale: {data: dict(sorted(rows.items())) for data, rows in sorted(by_data.items())}
        for scale, by_data in sorted(tuned.choices.items())
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, _HEAD + tomli_w.dumps(content))
