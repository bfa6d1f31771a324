"""The paper's tables and figures as data: columns (data and noise), rows (what is trained), published numbers.

A row is named by the method that is run; its title is what the paper calls it. The same cell may stand in several
tables and is run once. `published.py` has the numbers that others reported, with their sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pars.bench.published import PUBLISHED, Published
from pars.errors import UserError
from pars.noise import NoiseConfig

DataName = Literal["cifar10", "cifar100", "clothing1m"]


@dataclass(frozen=True)
class Column:
    """A data set with wrong labels."""

    key: str
    title: str
    data: DataName
    noise: NoiseConfig
    labeled: int | None = None  # keep so many labels; the other rows are unlabeled

    @property
    def has_small_scales(self) -> bool:
        """Whether it is run at scales other than `paper`, and tuned there; Clothing1M's recipe is fine-tuning."""
        return self.data != "clothing1m"


@dataclass(frozen=True)
class Row:
    """A method, and what is changed in its settings."""

    key: str
    method: str  # of pars.methods or pars.classic
    title: str  # as the paper has it
    changes: Mapping[str, Any] = field(default_factory=dict)  # hyper-parameters that make it this row
    tuned_as: str | None = None  # the row whose tuned settings it has; by default its own
    taken_from: str | None = None  # the row whose runs it reads: same training, at the epoch held-out labels prefer

    @property
    def tuned_key(self) -> str:
        return self.tuned_as or self.key


@dataclass(frozen=True)
class Table:
    """Rows by columns."""

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    source: str  # key of PUBLISHED

    def published(self, row: str, column: str) -> Published | None:
        """What was reported for a cell; none where nothing was, or it is not known here."""
        return PUBLISHED.get((self.source, row, column)) or PUBLISHED.get(("later", row, column))


def _symmetric(rate: float) -> NoiseConfig:
    return NoiseConfig(kind="symmetric", rate=rate)


def _columns() -> dict[str, Column]:
    out = []
    for data, title, file in (
        ("cifar10", "CIFAR-10", "CIFAR-10_human.pt"),
        ("cifar100", "CIFAR-100", "CIFAR-100_human.pt"),
    ):
        name: Any = data
        for percent in (20, 50, 80, 90):
            out.append(Column(f"{data}-sym-{percent}", f"{title} sym. {percent} %", name, _symmetric(percent / 100)))
        asymmetric = NoiseConfig(kind="asymmetric", rate=0.4)
        out.append(Column(f"{data}-asym-40", f"{title} asym. 40 %", name, asymmetric))
        few = 4_000 if data == "cifar10" else 10_000
        for percent in (50, 90):
            key, about = f"{data}-{few}-sym-{percent}", f"{title}, {few} labels, sym. {percent} %"
            out.append(Column(key, about, name, _symmetric(percent / 100), labeled=few))
        for labels in ("aggre", "random1", "worse") if data == "cifar10" else ("noisy",):
            noise = NoiseConfig(kind="file", path=file, labels=labels)
            out.append(Column(f"{data}n-{labels}", f"{title}N {labels}", name, noise))
    out.append(Column("clothing1m", "Clothing1M", "clothing1m", NoiseConfig()))
    return {column.key: column for column in out}


COLUMNS = _columns()

_WITHOUT_PSEUDO = {"pseudo": False}
_WITHOUT_NEGATIVE = {"raw_negative": "none", "pseudo_negative": False}
ROWS: dict[str, Row] = {
    row.key: row
    for row in (
        Row("ce", "ce", "Cross-entropy loss"),
        Row("ce-early-stopped", "ce", "Cross-entropy, stopped by held-out given labels", taken_from="ce"),
        Row("logistic-regression", "logistic-regression", "L2-tuned logistic regression"),
        Row("bootstrap-hard", "bootstrap-hard", "Bootstrap"),
        Row("f-correction", "f-correction", "F-correction"),
        Row("mixup", "mixup", "Mixup"),
        Row("co-teaching-plus", "co-teaching-plus", "Co-teaching+"),
        Row("pencil", "pencil", "P-correction"),
        Row("mlnt", "mlnt", "Meta-Learning"),
        Row("m-correction", "m-correction", "M-correction"),
        Row("dividemix", "dividemix", "DivideMix"),
        Row("elr+", "elr+", "ELR+"),
        Row("augdesc-ws-waw", "augdesc-ws-waw", "DM-AugDesc-WS-WAW"),
        Row("augdesc-ws-saw", "augdesc-ws-saw", "DM-AugDesc-WS-SAW"),
        Row("warmup", "warmup", "Robust loss (warm-up training only)"),
        Row("pars", "pars", "PARS, with stabilizers"),
        Row("pars-paper", "pars-paper", "PARS, the paper's algorithm"),
        Row("elr", "elr", "ELR"),
        Row("joint-optim", "joint-optim", "Joint-Optim"),
        Row("ssr+", "ssr+", "SSR+"),
        Row("sop+", "sop+", "SOP+"),
        Row("disc", "disc", "DISC"),
        Row("unicon", "unicon", "UNICON"),
        Row("promix", "promix", "ProMix"),
        Row("wann", "wann", "WANN"),
        Row("co-teaching", "co-teaching", "Co-teaching"),
        Row("pes", "pes", "PES (semi)"),
        Row("sop", "sop", "SOP"),
        # Table 3
        Row("fixmatch", "fixmatch", "FixMatch"),
        Row("augdesc-ws", "augdesc-ws", "AugDesc-WS", tuned_as="augdesc-ws-waw"),
        Row("dividemix+", "dividemix+", "DivideMix+", tuned_as="dividemix"),
        Row("augdesc-ws+", "augdesc-ws+", "AugDesc-WS+", tuned_as="augdesc-ws-waw"),
        # Table 4: the ablation has the settings of the full model
        Row("pars-without-pseudo", "pars", "PARS w/o pseudo-label loss", _WITHOUT_PSEUDO, "pars"),
        Row("pars-without-negative", "pars", "PARS w/o negative learning", _WITHOUT_NEGATIVE, "pars"),
        Row("pars-paper-without-pseudo", "pars-paper", "PARS w/o pseudo-label loss", _WITHOUT_PSEUDO, "pars-paper"),
        Row("pars-paper-without-negative", "pars-paper", "PARS w/o negative learning", _WITHOUT_NEGATIVE, "pars-paper"),
        # appendix
        Row("pars-robust-pseudo", "pars", "PARS, robust loss on pseudo-labels", {"pseudo_positive": "robust"}, "pars"),
        *(
            Row(f"pars-tau-{tau:g}", "pars", f"PARS, τ = {tau:g}", {"tau": tau}, "pars")
            for tau in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
        ),
    )
}

_CIFAR10 = tuple(f"cifar10-{noise}" for noise in ("sym-20", "sym-50", "sym-80", "sym-90", "asym-40"))
_CIFAR100 = tuple(f"cifar100-sym-{percent}" for percent in (20, 50, 80, 90))
_PAPER_ROWS = (
    *("ce", "bootstrap-hard", "f-correction", "mixup", "co-teaching-plus", "pencil", "mlnt", "m-correction"),
    *("dividemix", "elr+", "augdesc-ws-waw", "augdesc-ws-saw", "warmup", "pars"),
)
_SIMPLE, _LATER = ("logistic-regression", "ce-early-stopped"), ("ssr+", "sop+", "disc", "unicon", "promix", "wann")
_BEYOND = ("pars-paper", *_SIMPLE, "elr", "joint-optim", *_LATER)
TABLES: dict[str, Table] = {
    table.key: table
    for table in (
        Table("table1", "Table 1: CIFAR-10 and CIFAR-100", (*_CIFAR10, *_CIFAR100), (*_PAPER_ROWS, *_BEYOND), "table1"),
        Table(
            "table2",
            "Table 2: Clothing1M",
            ("clothing1m",),
            (
                *("ce", "f-correction", "m-correction", "joint-optim", "mlnt", "pencil", "dividemix", "elr+"),
                *("augdesc-ws-waw", "augdesc-ws-saw", "warmup", "pars", "ssr+", "unicon", "disc"),
            ),
            "table2",
        ),
        Table(
            "table3",
            "Table 3: few labels, the other rows unlabeled",
            tuple(column.key for column in COLUMNS.values() if column.labeled),
            ("fixmatch", "dividemix", "augdesc-ws", "dividemix+", "augdesc-ws+", "pars", "ce", *_SIMPLE),
            "table3",
        ),
        Table(
            "table4",
            "Table 4: ablation",
            (*_CIFAR10, *_CIFAR100),
            (
                *("ce", "warmup", "pars-without-pseudo", "pars-without-negative", "pars"),
                *("pars-paper-without-pseudo", "pars-paper-without-negative", "pars-paper"),
            ),
            "table4",
        ),
        Table(
            "appendix",
            "Appendix: robust loss on pseudo-labels",
            ("cifar10-sym-50",),
            ("pars-robust-pseudo", "pars"),
            "appendix",
        ),
        Table(
            "figure2",
            "Figure 2: confidence after each stage",
            ("cifar10-sym-50",),
            ("warmup", "pars-without-pseudo", "pars"),
            "figure2",
        ),
        Table(
            "figure3",
            "Figure 3: accuracy over training with and without negative learning",
            ("cifar10-asym-40",),
            ("pars", "pars-without-negative"),
            "figure3",
        ),
        Table(
            "figure4",
            "Figure 4: accuracy at several confidence thresholds τ",
            ("cifar10-sym-90",),
            tuple(key for key in ROWS if key.startswith("pars-tau-")),
            "figure4",
        ),
        Table(
            "cifar-n",
            "CIFAR-10N and CIFAR-100N: labels people gave",
            ("cifar10n-aggre", "cifar10n-random1", "cifar10n-worse", "cifar100n-noisy"),
            (*_PAPER_ROWS, *_BEYOND, "co-teaching", "pes", "sop"),
            "cifar-n",
        ),
    )
}


def table(key: str) -> Table:
    """A table by its key."""
    if key not in TABLES:
        raise UserError(f"unknown table {key!r}; there are: {', '.join(TABLES)}")
    return TABLES[key]


def chosen(keys: str | None, of: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Those of the keys that a flag names, in the table's order; all without a flag.

    A key may be cut off: `cifar10` stands for every column that begins so.
    """
    if keys is None:
        return of
    names = [name.strip() for name in keys.split(",") if name.strip()]
    if not names:
        raise UserError(f"{what} is {keys!r}, expected some of {', '.join(of)}; an unset variable in the shell?")
    found: set[str] = set()
    for name in names:
        matching = {name} & set(of) or {key for key in of if key.startswith(f"{name}-")}
        if not matching:
            raise UserError(f"{what}: {name!r} is none of {', '.join(of)}")
        found |= matching
    return tuple(key for key in of if key in found)
