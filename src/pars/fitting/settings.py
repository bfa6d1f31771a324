"""How rows are fitted: what a user of `pars.fit` or `pars fit` may choose."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pars import encode
from pars.data import Table
from pars.encode import EncoderName

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
