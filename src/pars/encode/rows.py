"""Encoding the rows of a table batch by batch, in memory; and the checksum that identifies rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from pars import data
from pars.data import DataConfig, Table
from pars.encode.encoder import Encoder, Features, Kind, Rows
from pars.encode.views import CachedViewsConfig, make_view
from pars.errors import UserError
from pars.machine import free_memory

_MEMORY_SHARE = 4  # a batch may take a quarter of the free memory
_TEXT_BYTES = 8 << 20  # per text of 256 tokens, in a network of the size of MiniLM to BERT
_IMAGE_FACTOR = 64  # activations of a network relative to its float32 input; measured 20 to 40 for ImageNet networks


def encode_rows(
    table: Table,
    encoder: Encoder,
    *,
    views: CachedViewsConfig | None = None,
    batch: int | None = None,
    step: Callable[[int], None] | None = None,
) -> tuple[Features, Features | None]:
    """Return features [n, d] of all rows of a table, and features [n, 2N, d] of their cached views if there are any.

    The result fits `Split(inputs, labels, cached=...)`.
    encoder: fitted already if it learns from texts. batch: by default from the free memory.
    step: called after each batch with its number of rows.

    >>> from pars.data import read_table
    >>> from pars.encode.registry import encoder
    >>> table = read_table({"t": ["a b c", "d e", "f"]}, text="t")
    >>> words = encoder(lambda texts: [[len(text.split())] for text in texts], kind="text")
    >>> x, cached = encode_rows(table, words, views=CachedViewsConfig(count=1))
    >>> x[:, 0].tolist(), cached.shape
    ([3.0, 2.0, 1.0], (3, 2, 1))
    """
    views = views or CachedViewsConfig()
    check_kind(encoder, views, table)
    size = batch or batch_size(encoder, free_memory())
    parts = []
    for start in range(0, len(table), size):
        parts.append(encode_batch(table, start, min(start + size, len(table)), encoder, views))
        if step is not None:
            step(len(parts[-1][0]))
    plain = np.concatenate([part for part, _ in parts])
    return plain, np.concatenate([part for _, part in parts]) if views.count else None


def encode_batch(
    table: Table, start: int, stop: int, encoder: Encoder, views: CachedViewsConfig
) -> tuple[Features, Features]:
    """Return features of rows start..stop-1 and of their views: [b, d] and [b, 2N, d]."""
    rows = read_rows(table, start, stop, encoder.size)
    plain = _encode_checked(encoder, rows, table, start)
    viewed = [make_view(rows, kind, copy, start, seed=views.seed, config=views.config) for kind, copy in views.copies]
    made = [_encode_checked(encoder, view, table, start) for view in viewed]
    return plain, np.stack(made, axis=1) if made else plain[:, None][:, :0]


def _encode_checked(encoder: Encoder, rows: Rows, table: Table, start: int) -> Features:
    found = encoder.encode(rows)
    wrong = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if wrong.size:
        place = table.row(start + int(wrong[0]))
        raise UserError(f"{place}: the encoder {encoder.name} returns features that are not finite")
    return found


def check_kind(encoder: Encoder, views: CachedViewsConfig, *tables: Table) -> None:
    """Raise a UserError if the encoder cannot read these rows, or the number of views is negative."""
    for table in tables:
        if row_kind(table) != encoder.kind:
            raise UserError(f"the encoder {encoder.name} reads {encoder.kind}s, {table.source} has {row_kind(table)}s")
    if views.count < 0:
        raise UserError(f"views: {views.count}, expected 0 or more of each kind")


def row_kind(table: Table) -> Kind:
    """Return "text" or "image"; a UserError for rows that are features already."""
    if table.kind == "columns" or (table.array is not None and table.array.ndim == 2):
        raise UserError(
            f"{table.source}: rows are features already, expected texts or images; name their column with text or image"
        )
    return "text" if table.kind == "text" else "image"


def read_rows(table: Table, start: int, stop: int, size: int) -> Rows:
    """Return rows start..stop-1: texts, or images [n, C, H, W]; image files are read at size×size in color."""
    if table.texts is not None:
        return table.texts[start:stop]
    if table.images is not None:
        try:
            images = [
                data.read_image(path, where=table.row(start + at), color=True, size=size)
                for at, path in enumerate(table.images[start:stop])
            ]
        except data.UnreadableImage as error:
            raise data.all_unreadable(error, table.images, table.row) from error
        return np.stack(images)
    assert table.array is not None
    return np.ascontiguousarray(table.array[start:stop], dtype=np.uint8)


def dataset_tables(name: str, root: str | None = None, *, download: bool = True) -> tuple[Table, Table | None]:
    """Return the training and the test rows of a data set that `pars train` knows by name, or of a file of arrays."""
    found = data.load(DataConfig(name=name, root=root, download=download))
    return _as_table(name, found.train, found.classes), (
        None if found.test is None else _as_table(f"{name} (test)", found.test, found.classes)
    )


def _as_table(source: str, rows: data.Split, classes: tuple[str, ...]) -> Table:
    ids = tuple(map(str, range(len(rows))))
    return Table(source, rows.labels, classes, ids, rows.true_labels, array=rows.inputs)


def table_checksum(table: Table) -> str:
    """Return the BLAKE2b checksum of all rows: texts, pixels, contents of the image files, or columns."""
    parts: Iterable[bytes]
    if table.texts is not None:
        parts = (text.encode("utf-8", "surrogatepass") for text in table.texts)
    elif table.images is not None:
        parts = (path.read_bytes() for path in table.images)
    elif table.columns is not None:
        parts = (
            f"{name}\n{values_checksum(list(values))}".encode("utf-8", "surrogatepass")
            for name, values in table.columns.items()
        )
    else:
        array = table.array
        assert array is not None
        parts = (np.ascontiguousarray(array[at : at + 256]).tobytes() for at in range(0, len(table), 256))
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def values_checksum(values: Sequence[object]) -> str:
    """Return the BLAKE2b checksum of labels or names."""
    return hashlib.blake2b("\n".join(map(str, values)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def batch_size(encoder: Encoder, free: int) -> int:
    """Return the number of rows per batch: the encoder's, or fewer if they would not fit into `free` bytes.

    >>> from pars.encode.image_encoders import pixels
    >>> batch_size(pixels(), free=8 << 30), batch_size(pixels(), free=1 << 20)
    (256, 1)
    """
    row = _TEXT_BYTES if encoder.kind == "text" else _IMAGE_FACTOR * 4 * 3 * max(encoder.size, 32) ** 2
    return max(1, min(encoder.batch, free // _MEMORY_SHARE // row))
