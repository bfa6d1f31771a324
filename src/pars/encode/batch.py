"""One batch of rows and its views through an encoder; and all rows at once, in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pars.augment import ViewsConfig
from pars.data import Table
from pars.encode.encoder import Encoder, Features, Rows
from pars.encode.memory import batch_size, free_memory
from pars.encode.rows import kind_of, take, view_of
from pars.encode.text_views import ViewKind
from pars.errors import UserError


@dataclass(frozen=True, kw_only=True)
class StoredViews:
    """How many views of each kind of every training row, and which."""

    count: int = 0
    seed: int = 0
    config: ViewsConfig = field(default_factory=ViewsConfig)

    @property
    def kinds(self) -> list[tuple[ViewKind, int]]:
        """All weak ones, then all strong ones."""
        return [(kind, copy) for kind in ("weak", "strong") for copy in range(self.count)]


def encode_batch(
    table: Table, start: int, stop: int, encoder: Encoder, views: StoredViews
) -> tuple[Features, Features]:
    """Features of rows start..stop-1 and of their views: [b, d] and [b, 2N, d]."""
    rows = take(table, start, stop, encoder.size)
    plain = _features(encoder, rows, table, start)
    seen = [view_of(rows, kind, copy, start, seed=views.seed, config=views.config) for kind, copy in views.kinds]
    made = [_features(encoder, view, table, start) for view in seen]
    return plain, np.stack(made, axis=1) if made else plain[:, None][:, :0]


def _features(encoder: Encoder, rows: Rows, table: Table, start: int) -> Features:
    found = encoder.encode(rows)
    wrong = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if wrong.size:
        place = table.row(start + int(wrong[0]))
        raise UserError(f"{place}: the encoder {encoder.name} gives features that are not finite")
    return found


def encode_rows(
    table: Table,
    encoder: Encoder,
    *,
    views: StoredViews | None = None,
    batch: int | None = None,
    step: Callable[[int], None] | None = None,
) -> tuple[Features, Features | None]:
    """All rows of a table in memory: features [n, d] and, where asked for, those of their views [n, 2N, d].

    What `Split(inputs, labels, cached=...)` takes. The encoder is fitted already where it wants to be. `step` is told
    how many rows were just done.

    >>> from pars.data import read_table
    >>> from pars.encode.names import encoder
    >>> table = read_table({"t": ["a b c", "d e", "f"]}, text="t")
    >>> words = encoder(lambda texts: [[len(text.split())] for text in texts], kind="text")
    >>> x, cached = encode_rows(table, words, views=StoredViews(count=1))
    >>> x[:, 0].tolist(), cached.shape
    ([3.0, 2.0, 1.0], (3, 2, 1))
    """
    views = views or StoredViews()
    check_kinds(encoder, views, table)
    size = batch or batch_size(encoder, free_memory())
    parts = []
    for start in range(0, len(table), size):
        parts.append(encode_batch(table, start, min(start + size, len(table)), encoder, views))
        if step is not None:
            step(len(parts[-1][0]))
    plain = np.concatenate([part for part, _ in parts])
    return plain, np.concatenate([part for _, part in parts]) if views.count else None


def check_kinds(encoder: Encoder, views: StoredViews, *tables: Table) -> None:
    """A UserError where the encoder reads something else than these rows."""
    for table in tables:
        if kind_of(table) != encoder.kind:
            raise UserError(f"the encoder {encoder.name} reads {encoder.kind}s, {table.source} has {kind_of(table)}s")
    if views.count < 0:
        raise UserError(f"views: {views.count}, expected 0 or more of each kind")
