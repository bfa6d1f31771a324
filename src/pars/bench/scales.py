"""The scales that a table can be run at: how a cell becomes a configuration. One code path for all of them.

paper     the published recipe, all rows, PreAct ResNet-18; for a GPU
features  10 000 rows as frozen features (EfficientNet-lite0, 1 280 numbers), an MLP head; 40 s on one core
pixels    10 000 images, a small CNN; minutes to an hour on one core
smoke     8×8 digits as 64 numbers, an MLP head; seconds, for tests
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pars import run
from pars.bench.tables import COLUMNS, ROWS, Column, Row
from pars.classic import CLASSIC
from pars.data import DataConfig, data_root
from pars.errors import UserError
from pars.files import expanded
from pars.noise import NoiseConfig

HELD_OUT = 0.1  # of the given labels
Settings = Mapping[str, Any]
"""What tuning chose: {"length": 0.5, "train": {"lr": 0.1, "weight_decay": 0.002}, "method": {"tau": 0.9}}."""


@dataclass(frozen=True)
class Scale:
    """A scale, its budgets, and the values that its trials are drawn from."""

    name: str
    about: str
    budget: Mapping[str, float] = field(default_factory=dict)  # PFLOP of a cell, by data set; none: the recipe's epochs
    limit: int | None = None  # training rows
    evaluations: int = 20  # of a run, evenly spaced: as many for every method
    held_out: float = HELD_OUT
    low_resource_steps: int | None = None  # of an epoch where most rows are unlabeled
    lr: tuple[float, ...] = ()
    weight_decay: tuple[float, ...] = ()
    length: tuple[float, ...] = ()  # shares of the budget

    @property
    def is_tuned(self) -> bool:
        return bool(self.lr)


SCALES: dict[str, Scale] = {
    scale.name: scale
    for scale in (
        Scale("paper", "the published recipe, all images, PreAct ResNet-18; for a GPU", held_out=0.0),
        Scale(
            "features",
            "10 000 rows as frozen features, an MLP head",
            # 68 passes over 10 000 rows: what PARS' 20 epochs cost
            budget={"cifar10": 0.00090, "cifar100": 0.00100},
            limit=10_000,
            low_resource_steps=60,
            lr=(0.01, 0.03, 0.1, 0.3),
            weight_decay=(5e-4, 2e-3, 5e-3, 2e-2),
            length=(0.25, 0.5, 1.0),
        ),
        Scale(
            "pixels",
            "10 000 images, a small CNN",
            budget={"cifar10": 0.0156, "cifar100": 0.0156},  # 68 passes over 10 000 images
            limit=10_000,
            low_resource_steps=60,
            lr=(0.03, 0.1, 0.3),
            weight_decay=(5e-4, 2e-3, 5e-3),
            length=(0.25, 0.5, 1.0),
        ),
        Scale(
            "smoke",
            "8×8 digits as 64 numbers, an MLP head: seconds, for tests",
            budget={"cifar10": 4e-6, "cifar100": 4e-6},
            limit=600,
            evaluations=4,
            low_resource_steps=5,
            lr=(0.03, 0.1),
            weight_decay=(5e-4, 5e-3),
            length=(0.5, 1.0),
        ),
    )
}
_NOTHING = object()  # equal to no value
CLOTHING1M = "clothing1M"  # in the folder of the data sets: its published layout, or a pack of it
FEW_LABELS = 100  # of smoke, where the paper has 4 000 or 10 000
ADDED: Mapping[str, Mapping[str, Any]] = {
    "data": {
        **{"image_column": None, "label_column": None, "side": None, "skip_unreadable": False, "test": None},
        "text_column": None,
    },
    "train": {"class_balanced": False},
}
"""Fields of a configuration that came after the first lines of the ledger, and their values in those runs.

A fingerprint leaves a field out where it has this value, so that a new field does not make old lines stale.
"""


@dataclass(frozen=True)
class Sources:
    """Where the data is: features by data set, and the folder of published sets and CIFAR-N files."""

    features: Mapping[str, Path] = field(default_factory=dict)
    root: Path | None = None


@dataclass(frozen=True)
class Cell:
    """One training run of a table, or one trial of a search."""

    scale: str
    column: str
    row: str
    seed: int
    settings: Settings = field(default_factory=dict)
    trial: int | None = None  # of a search: then it never sees the test set

    def __post_init__(self) -> None:
        for what, key, known in (
            ("scale", self.scale, SCALES),
            ("column", self.column, COLUMNS),
            ("row", self.row, ROWS),
        ):
            if key not in known:
                raise UserError(f"unknown {what} {key!r}; there are: {', '.join(known)}")

    @property
    def name(self) -> str:
        trial = "" if self.trial is None else f"/trial-{self.trial}"
        return f"{self.scale}/{self.column}/{self.row}/seed-{self.seed}{trial}"


def sources(features: list[str], root: str | None) -> Sources:
    """Where the data is, from flags: `--features [DATA=]FILE`, the data set being read off the file's name otherwise.

    >>> sources(["cifar100-lite0.npz", "cifar10=x.npz"], None).features
    {'cifar100': PosixPath('cifar100-lite0.npz'), 'cifar10': PosixPath('x.npz')}
    """
    found: dict[str, Path] = {}
    for text in features:
        data, equals, file = text.partition("=")
        path = expanded(file if equals else text)
        if not equals:
            data = next((name for name in ("cifar100", "cifar10") if path.name.startswith(name)), "")
        if data not in ("cifar10", "cifar100"):
            raise UserError(f"--features {text}: whose features? expected cifar10=FILE or cifar100=FILE")
        found[data] = path
    return Sources(found, None if root is None else expanded(root))


def configuration(cell: Cell, where: Sources) -> run.RunConfig:
    """The configuration of a cell. Of a classifier without a network only its data, noise and seed count."""
    scale, column, row = SCALES[cell.scale], COLUMNS[cell.column], ROWS[cell.row]
    budget = scale.budget.get(column.data, 0.0) * cell.settings.get("length", 1.0)
    network = "ce" if row.method in CLASSIC else row.method
    recipe = _recipe(scale, column, network, budget)
    config = replace(recipe, data=replace(_data(scale, column, where), side=recipe.data.side), seed=cell.seed)
    train: dict[str, Any] = {"dynamics_every": 0}  # no label is audited
    if scale.held_out:
        train["select"] = "best-epoch"
    if column.labeled and scale.low_resource_steps:
        train["steps_per_epoch"] = scale.low_resource_steps
    own = {} if row.method in CLASSIC else {**cell.settings.get("method", {}), **row.changes}
    changes = {"train": {**train, **cell.settings.get("train", {})}, "method": own}
    return run.overlay(config, changes)


def _recipe(scale: Scale, column: Column, method: str, budget: float) -> run.RunConfig:
    """A preset for the column's noise, with its budget."""
    noise = _noise(scale, column)
    if scale.name == "paper":
        return run.preset(f"{column.data}-low-resource" if column.labeled else column.data)(noise, method)
    config = run.preset("cifar10-small" if scale.name == "pixels" else "features", budget)(noise, method)
    return replace(config, device="cpu", model=replace(config.model, matmul="onednn"))


def _noise(scale: Scale, column: Column) -> NoiseConfig:
    if scale.name == "smoke" and column.noise.kind == "file":
        return NoiseConfig(kind="instance", rate=0.4)  # digits have no labels of annotators
    return column.noise


def _data(scale: Scale, column: Column, where: Sources) -> DataConfig:
    """The rows of a cell. With few labels the other rows are unlabeled, so all rows are there."""
    name: str = column.data
    labeled = column.labeled
    if scale.name == "smoke":
        name, labeled = str(_of(where, "cifar10", column)), labeled and FEW_LABELS
    elif scale.name == "features":
        name = str(_of(where, column.data, column))
    elif column.data == "clothing1m":
        name = str(data_root(None if where.root is None else str(where.root)) / CLOTHING1M)
    return DataConfig(
        name=name,
        root=None if where.root is None else str(where.root),
        labeled=labeled,
        limit=None if column.labeled and scale.name != "smoke" else scale.limit,
        holdout=scale.held_out,
        download=scale.name == "paper",
    )


def _of(where: Sources, data: str, column: Column) -> Path:
    if data not in where.features:
        raise UserError(f"column {column.key} needs the features of {data}: --features {data}=FILE (docs/protocol.md)")
    return where.features[data]


def smoke_features(path: Path) -> None:
    """Write the digits as feature vectors: the data of the smoke scale."""
    import numpy as np

    from pars.data import load
    from pars.files import write_atomically

    digits = load(DataConfig(name="digits"))
    assert digits.test is not None
    arrays = {
        "x": digits.train.inputs.reshape(len(digits.train), -1).astype(np.float32),
        "y": digits.train.labels,
        "x_test": digits.test.inputs.reshape(len(digits.test), -1).astype(np.float32),
        "y_test": digits.test.labels,
    }

    def write(beside: Path) -> None:
        with beside.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, write)


def fingerprint(cell: Cell, where: Sources) -> str:
    """A hash of everything in a cell's configuration that decides its outcome: files by name, folders left out."""
    config = configuration(cell, where)
    data, noise = config.data, config.noise
    data = replace(data, name=Path(data.name).name)
    config = replace(config, data=replace(data, root=None, download=True), noise=replace(noise, path=_file(noise.path)))
    row = ROWS[cell.row]
    about = {
        "method": row.method,
        "classic": dict(cell.settings.get("method", {})) if row.method in CLASSIC else None,
        "kind": type(config.method).__name__,
        "test": cell.trial is None,
        "config": _without_added(asdict(config)),
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _without_added(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration without the fields of `ADDED` that have no effect, and without what changes rounding alone."""
    out = {**config, "model": {name: value for name, value in config["model"].items() if name != "matmul"}}
    for table, fields in ADDED.items():
        out[table] = {name: value for name, value in config[table].items() if fields.get(name, _NOTHING) != value}
    return out


def _file(path: str | None) -> str | None:
    return None if path is None else Path(path).name


def rows_of(keys: tuple[str, ...]) -> tuple[Row, ...]:
    """The rows that have runs of their own."""
    return tuple(ROWS[key] for key in dict.fromkeys(ROWS[key].taken_from or key for key in keys))
