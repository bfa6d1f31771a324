"""How a user's rows become what a network reads: chosen and learned from training rows, then applied to any.

The one road from texts, pictures, tables and arrays to inputs, for `pars fit`, `pars predict` and the estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from pars import data
from pars.augment import ViewsConfig
from pars.data import ColumnEncoder, Inputs, Table
from pars.encode.batch import StoredViews, encode_rows
from pars.encode.encoder import Encoder, Features
from pars.encode.frame import Frame, common_frame
from pars.encode.names import NAMES, encoder
from pars.encode.rows import kind_of
from pars.errors import UserError
from pars.files import expanded

RowKind = Literal["text", "image", "columns", "array"]
EncoderName = str | Callable[[Any], Any]
READY = {"text": "tfidf", "image": "lite0"}  # what is taken where nobody says; both need no network connection
TFIDF = (
    "no encoder was named: TF-IDF and a truncated SVD learn from these texts; a pre-trained one often knows more "
    "(minilm, for English)"
)
WORDS = {"text": "texts", "image": "pictures", "columns": "columns", "array": "arrays"}


@dataclass(frozen=True, eq=False)
class Preparation:
    """Rows of one kind to feature vectors float32 [n, d] or images uint8 [n, C, H, W].

    kind: of the rows, as `Table.kind`.
    encoder: of texts and pictures; none where pictures are trained on from their pixels, nor for numbers.
    frame: the size of pictures without an encoder.
    columns, texts: of a table: its numbers and categories, and its columns of free texts with an encoder each.
    reading: arguments of `data.read_table` for files of such rows.
    note: what was chosen without being asked for, so that the user can be told; "" where nothing was.
    """

    kind: RowKind
    encoder: Encoder | None = None
    frame: Frame | None = None
    columns: ColumnEncoder | None = None
    texts: Mapping[str, Encoder] = field(default_factory=dict)
    reading: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    def apply(
        self, table: Table, views: StoredViews | None = None, step: Callable[[int], None] | None = None
    ) -> tuple[Inputs, Features | None]:
        """Inputs of the rows and, where asked for, features [n, 2N, d] of their views; `step` as in `encode_rows`.

        Arrays of features, or of images where no encoder reads them, are inputs already.
        """
        self.check_views(views or StoredViews())
        if table.array is not None and (self.encoder is None or table.array.ndim == 2):
            return table.array, table.cached
        if table.kind != self.kind and not (table.kind == "array" and self.kind == "image"):
            raise UserError(f"{table.source} has {WORDS[table.kind]}, expected {WORDS[self.kind]} as in training")
        if self.encoder is not None:
            return encode_rows(table, self.encoder, views=views, step=step)
        return (self._features(table) if self.frame is None else self.frame.read(table)), None

    def check_views(self, views: StoredViews) -> None:
        """A UserError where no views can be stored."""
        if views.count < 0:
            raise UserError(f"views: {views.count}, expected 0 or more of each kind")
        if views.count and self.encoder is None:
            raise UserError(f"views: {views.count}, but only texts and pictures that an encoder reads have some")

    def _features(self, table: Table) -> Features:
        assert table.columns is not None
        parts = [] if self.columns is None else [self.columns.encode(table.columns)]
        for name, of_texts in self.texts.items():
            texts = data.column_texts(table.columns, name)
            parts.append(encode_rows(as_texts(table, texts), of_texts)[0])
        return np.concatenate(parts, axis=1)

    def read(self, source: Any, *, labels: bool = False, **more: Any) -> Table:
        """A file, folder or frame of such rows; further columns, and labels unless asked for, are not looked at."""
        has_columns = data.is_frame(source) or data.has_columns(expanded(str(source)))
        wanted = {"text", "image", "features", "delimiter", "encoding", "label"} if has_columns else set()
        wanted = wanted | {"unlabeled"} if labels else wanted - {"label"}
        chosen = {name: value for name, value in self.reading.items() if name in wanted}
        if self.kind == "columns" and has_columns:
            known = [] if self.columns is None else [column.name for column in self.columns.columns]
            chosen["features"] = [*known, *self.texts]  # by name: a column of one row may look like a row number
        return data.read_table(source, **chosen | more)


def stored_views(count: int, seed: int) -> StoredViews:
    """So many weak and strong views of every row, as `pars encode --views` makes them."""
    return StoredViews(count=count, seed=seed, config=ViewsConfig(strong="randaugment"))


def prepare(table: Table, chosen: EncoderName | None = None) -> Preparation:
    """How rows like these become inputs. `chosen`: an encoder by name, or a function, for texts and pictures.

    >>> from pars.data import read_table
    >>> table = read_table({"says": ["miaow miaow", "woof woof", "miaow", "woof"]}, text="says")
    >>> words = prepare(table)
    >>> words.encoder.name, words.apply(table)[0].shape
    ('tfidf', (4, 3))
    """
    if table.kind == "columns":
        return _of_columns(table, chosen)
    if table.kind == "array" and chosen is None:
        return Preparation("array")
    kind = kind_of(table)
    if table.texts is not None and len(table.texts) > 1 and len(set(table.texts)) == 1:
        raise UserError(f"{table.source}: all {len(table)} texts are the same, so there is nothing to learn from them")
    if chosen is None and kind == "image":
        return _of_pictures(table)
    made = encoder(READY[kind] if chosen is None else chosen, kind=kind).fitted(table.texts or [])
    return Preparation(kind, encoder=made, note="" if chosen is not None else TFIDF)


def _of_pictures(table: Table) -> Preparation:
    """Small pictures by their pixels, others by the encoder that is installed."""
    found = common_frame(table)
    if isinstance(found, Frame):
        how = f"at {found.width}×{found.height}, {'gray' if found.channels == 1 else 'in color'}"
        note = f"no encoder was named: {len(table)} small pictures, so a network is trained from their pixels ({how})"
        return Preparation("image", frame=found, note=note)
    try:
        made = encoder(READY["image"], kind="image")
    except UserError as error:
        others = ", ".join(name for name, words in NAMES.items() if "image" in words and name != READY["image"])
        raise UserError(f"{found}, so an encoder has to read it: {error}; or name another one ({others})") from None
    return Preparation("image", encoder=made, note=f"no encoder was named: {made.name} reads the pictures ({found})")


def _of_columns(table: Table, chosen: EncoderName | None) -> Preparation:
    assert table.columns is not None
    free = [name for name in table.columns if data.is_free_text(table.columns[name])]
    if chosen is not None and not free:
        kind_of(table)  # says that there is nothing to encode
    others = table.columns.only(name for name in table.columns if name not in free)
    columns = ColumnEncoder.fit(others, may_be_empty=bool(free)) if len(others) else None
    of_texts = encoder(READY["text"] if chosen is None else chosen, kind="text") if free else None
    texts = {name: _fitted(of_texts, table, name) for name in free if of_texts is not None}
    note = ""
    if free and chosen is None:
        note = f"free texts in {', '.join(map(repr, free))}: TF-IDF and a truncated SVD learn from them"
    return Preparation(
        "columns", columns=columns if columns is not None and columns.columns else None, texts=texts, note=note
    )


def _fitted(of_texts: Encoder, table: Table, column: str) -> Encoder:
    assert table.columns is not None
    try:
        return of_texts.fitted(data.column_texts(table.columns, column))
    except UserError as error:
        raise UserError(f"{table.source}: column {column!r}: {error}") from None


def as_texts(table: Table, texts: list[str]) -> Table:
    """The rows of a table as texts alone, named as before in messages."""
    return Table(table.source, table.labels, (), table.ids, texts=texts, lines=table.lines)
