"""Numbers that others reported: accuracy in percent, best epoch on the test set unless the source says otherwise.

Keys are (source, row, column) as tables.py has them. "later" are papers after PARS; a table falls back on them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A reported accuracy (%), and where it is from."""

    value: float
    source: str


_TABLE_1 = """
ce                86.8 79.4 62.9 42.7 85.0 62.0 46.7 19.9 10.1
bootstrap-hard    86.8 79.8 63.3 42.9 -    62.1 46.6 19.9 10.2
f-correction      86.8 79.8 63.3 42.9 87.2 61.5 46.6 19.9 10.2
mixup             95.6 87.1 71.6 52.2 -    67.8 57.3 30.8 14.6
co-teaching-plus  89.5 85.7 67.4 47.9 -    65.6 51.8 27.9 13.7
pencil            92.4 89.1 77.5 58.9 88.5 69.4 57.5 31.1 15.3
mlnt              92.9 89.3 77.4 58.7 89.2 68.5 59.2 42.4 19.5
m-correction      94.0 92.0 86.8 69.1 87.4 73.9 66.1 48.2 24.3
dividemix         96.1 94.6 93.2 76.0 93.4 77.3 74.6 60.2 31.5
elr+              95.8 94.8 93.3 78.7 93.0 77.6 73.6 60.8 33.4
augdesc-ws-waw    96.3 95.4 93.8 91.9 94.6 79.5 77.2 66.4 41.2
augdesc-ws-saw    96.3 95.6 93.7 35.3 94.6 79.6 77.6 61.8 17.3
warmup            84.0 76.4 74.1 54.5 79.0 63.9 59.8 42.1 18.9
pars              96.3 95.8 94.9 93.6 95.4 77.7 75.3 69.2 53.1
pars-paper        96.3 95.8 94.9 93.6 95.4 77.7 75.3 69.2 53.1
"""
_TABLE_1_COLUMNS = (
    *("cifar10-sym-20", "cifar10-sym-50", "cifar10-sym-80", "cifar10-sym-90", "cifar10-asym-40"),
    *("cifar100-sym-20", "cifar100-sym-50", "cifar100-sym-80", "cifar100-sym-90"),
)
_FROM_DIVIDEMIX = (
    "ce",
    "bootstrap-hard",
    "f-correction",
    "mixup",
    "co-teaching-plus",
    "pencil",
    "mlnt",
    "m-correction",
)

_TABLE_2 = """
ce              69.21
f-correction    69.84
m-correction    71.00
joint-optim     72.16
mlnt            73.47
pencil          73.49
dividemix       74.76
elr+            74.81
augdesc-ws-waw  74.72
augdesc-ws-saw  75.11
warmup          71.80
pars            74.61
pars-paper      74.61
"""
_TABLE_3 = """
fixmatch     82.7 54.9 55.6 22.0
dividemix    66.0 37.1 25.2 8.0
augdesc-ws   73.3 56.1 31.1 10.1
dividemix+   74.3 40.7 10.6 7.2
augdesc-ws+  73.2 57.5 30.1 7.6
pars         95.3 70.3 76.3 48.9
"""
_TABLE_3_COLUMNS = ("cifar10-4000-sym-50", "cifar10-4000-sym-90", "cifar100-10000-sym-50", "cifar100-10000-sym-90")
_TABLE_4 = """
ce                           86.8 79.4 62.9 42.7 85.0 62.0 46.7 19.9 10.1
warmup                       84.0 76.4 74.1 54.5 79.0 63.9 59.8 42.1 18.9
pars-without-pseudo          87.6 86.6 79.7 59.1 84.3 66.4 62.0 45.7 21.4
pars-without-negative        95.6 94.6 94.3 92.4 92.3 76.6 74.3 67.0 51.3
pars                         96.3 95.8 94.9 93.6 95.4 77.7 75.3 69.2 53.1
pars-paper-without-pseudo    87.6 86.6 79.7 59.1 84.3 66.4 62.0 45.7 21.4
pars-paper-without-negative  95.6 94.6 94.3 92.4 92.3 76.6 74.3 67.0 51.3
pars-paper                   96.3 95.8 94.9 93.6 95.4 77.7 75.3 69.2 53.1
"""

_CIFAR_N_COLUMNS = ("cifar10n-aggre", "cifar10n-random1", "cifar10n-worse", "cifar100n-noisy")
_CIFAR_N = """
ce                91.70 90.20 83.91 61.19
co-teaching       91.93 90.69 80.92 54.48
co-teaching-plus  91.15 89.82 82.36 55.46
elr               93.00 92.20 87.89 63.72
elr+              95.32 94.89 91.75 67.87
dividemix         95.62 95.72 93.10 70.91
pes               94.64 95.20 92.58 70.32
sop               91.69 89.83 83.66 56.17
sop+              96.04 95.70 92.89 63.88
"""
_RESCIENCE = "independent re-run, ReScience C 2026 (its README; 3 seeds, its own settings)"
_LATER = """
ssr+    96.7 96.1 95.6 95.2 95.5 79.7 77.2 71.9 66.6
unicon  96.0 95.6 93.9 90.8 94.1 78.9 77.6 63.9 44.8
promix  97.7 97.4 95.5 93.4 96.6 82.6 80.1 69.4 42.9
sop+    96.3 95.5 94.0 -    93.8 78.8 75.9 63.3 -
"""
_RECALLED = "its paper, quoted from memory and not checked"
_LATER_SOURCE = {
    "ssr+": "README of its public code",
    "unicon": _RECALLED,
    "promix": _RECALLED,
    "sop+": _RECALLED,
}
PUBLISHED: dict[tuple[str, str, str], Published] = {}


def _add(table: str, text: str, columns: tuple[str, ...], source: str | dict[str, str]) -> None:
    for line in text.strip().splitlines():
        row, *values = line.split()
        where = source if isinstance(source, str) else source[row]
        for column, value in zip(columns, values, strict=True):
            if value != "-":
                PUBLISHED[table, row, column] = Published(float(value), where)


def _paper_source(number: int, text: str, quoted: tuple[str, ...]) -> dict[str, str]:
    own = f"PARS (Goel et al. 2022), Table {number}"
    rows = [line.split()[0] for line in text.strip().splitlines()]
    return {row: f"{own}, quoted there from DivideMix (Li et al. 2020)" if row in quoted else own for row in rows}


_add("table1", _TABLE_1, _TABLE_1_COLUMNS, _paper_source(1, _TABLE_1, _FROM_DIVIDEMIX))
_FROM_DIVIDEMIX_2 = ("ce", "f-correction", "m-correction", "joint-optim", "mlnt", "pencil")
_add("table2", _TABLE_2, ("clothing1m",), _paper_source(2, _TABLE_2, _FROM_DIVIDEMIX_2))
_add("table3", _TABLE_3, _TABLE_3_COLUMNS, _paper_source(3, _TABLE_3, ()))
_add("table4", _TABLE_4, _TABLE_1_COLUMNS, _paper_source(4, _TABLE_4, ()))
_APPENDIX = "PARS (Goel et al. 2022), appendix, text"
_add("appendix", "pars-robust-pseudo 92.9\npars 95.8", ("cifar10-sym-50",), _APPENDIX)
_add("cifar-n", _CIFAR_N, _CIFAR_N_COLUMNS, _RESCIENCE)
_add("cifar-n", "promix 97.65 97.39 96.34 73.79", _CIFAR_N_COLUMNS, _RECALLED)
_add("later", _LATER, _TABLE_1_COLUMNS, _LATER_SOURCE)
_add("later", "ssr+ 74.83\nunicon 74.98\ndisc 73.72", ("clothing1m",), _RECALLED)
