"""How rows are fitted: what a user of `pars.fit` or `pars fit` may choose."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

from pars import encode
from pars.data import Table
from pars.encode import EncoderName
from pars.errors import UserError
from pars.files import expanded

ROWS_CHECKSUM = "rows_blake2b"


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How rows are fitted.

    method: a name of `pars methods`. encoder: for texts and images, as `pars encode` takes it; None: chosen.
    encoded_views: weak and strong views of every row that are encoded, too.
    reading: arguments of `data.read_table`, with which files of new rows are read later.
    baseline: whether to train plain cross-entropy, too, to say whether the method helped.
    """

    method: str = "pars"
    encoder: EncoderName | None = None
    encoded_views: int = 0
    seed: int = 0
    device: str = "auto"
    network: Any = "auto"
    reading: Mapping[str, Any] = field(default_factory=dict)
    baseline: bool = True

    def __post_init__(self) -> None:
        for name in ("seed", "encoded_views"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool):
                raise UserError(f"{name} is {value!r}, expected a whole number")
            object.__setattr__(self, name, int(value))  # of numpy's, too: job.json holds it

    @property
    def function(self) -> EncoderName | None:
        """The encoder, if it is a function or names one: a folder may not name it, loading must not import code."""
        named = isinstance(self.encoder, str) and self.encoder.startswith("python:")
        return self.encoder if named or callable(self.encoder) else None

    def job(self, *tables: Table | None) -> dict[str, Any]:
        """What a fit depends on, as JSON values: two equal jobs have equal results."""
        named = self.encoder if isinstance(self.encoder, str | None) else getattr(self.encoder, "__name__", "function")
        rows = [
            (
                encode.table_checksum(table),
                table.labels.tolist(),  # a list: repr elides arrays
                table.classes,
                [] if table.true_labels is None else table.true_labels.tolist(),
                *([] if table.checked is None else [table.checked.tolist()]),
            )
            for table in tables
            if table is not None
        ]
        return {
            "method": self.method,
            "encoder": named,
            "encoded_views": self.encoded_views,
            "seed": self.seed,
            "columns": {name: value for name, value in self.reading.items() if value is not None},
            **({} if self.network == "auto" else {"network": self.network}),
            ROWS_CHECKSUM: hashlib.blake2b(repr(rows).encode(), digest_size=16).hexdigest(),
        }


def path_of(value: Any, name: str) -> Path | None:
    """A path that the caller gave as the argument `name`; None for None.

    >>> path_of("fits/mine", "out")
    PosixPath('fits/mine')
    """
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike) or not isinstance(path := os.fspath(value), str):
        raise UserError(f"{name} is {value!r}, expected the path of a file or folder")
    if "\0" in path:
        raise UserError(f"{name} is {value!r}, which holds a NUL character")
    return expanded(path)
