"""What is encoded: rows of a table, batch by batch, with their views; and the checksum that identifies them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pars import augment, data, seeds
from pars.augment import Params, View, ViewsConfig
from pars.data import DataConfig, Table
from pars.encode.encoder import Images, Kind, Rows
from pars.encode.text_views import ViewKind, text_views
from pars.errors import UserError


def kind_of(table: Table) -> Kind:
    """Texts or images; a UserError for rows that need no encoder."""
    if table.kind == "columns" or (table.array is not None and table.array.ndim == 2):
        raise UserError(
            f"{table.source}: rows are features already, expected texts or images; is their column named (text, image)?"
        )
    return "text" if table.kind == "text" else "image"


def published(name: str, root: str | None = None, *, download: bool = True) -> tuple[Table, Table | None]:
    """The training and the test rows of a data set that `pars train` knows by name or as arrays."""
    found = data.load(DataConfig(name=name, root=root, download=download))
    return _as_table(name, found.train, found.classes), (
        None if found.test is None else _as_table(f"{name} (test)", found.test, found.classes)
    )


def _as_table(source: str, rows: data.Split, classes: tuple[str, ...]) -> Table:
    ids = tuple(map(str, range(len(rows))))
    return Table(source, rows.labels, classes, ids, rows.true_labels, array=rows.inputs)


def take(table: Table, start: int, stop: int, size: int) -> Rows:
    """Rows start..stop-1: texts, or images; picture files are read at size×size in color."""
    if table.texts is not None:
        return table.texts[start:stop]
    if table.images is not None:
        read = [
            data.read_image(path, where=table.row(start + at), color=True, size=size)
            for at, path in enumerate(table.images[start:stop])
        ]
        return np.stack(read)
    assert table.array is not None
    return np.ascontiguousarray(table.array[start:stop], dtype=np.uint8)


def view_of(
    rows: Rows, kind: ViewKind, copy: int, first_row: int, *, seed: int, config: ViewsConfig | None = None
) -> Rows:
    """View number `copy` of rows first_row, first_row + 1, …; a function of (seed, kind, copy, row), not of a batch."""
    if not isinstance(rows, np.ndarray):
        return text_views(list(rows), kind, copy, first_row, seed)
    channels = rows.shape[1]
    views = augment.build_views(
        config or ViewsConfig(), image=True, shape=tuple(rows.shape[1:]), mean=(0.5,) * channels, std=(0.25,) * channels
    )
    view = views.weak if kind == "weak" else views.strong
    params = _drawn(view, rows, f"encode/{kind}/{copy}", first_row, seed)
    return np.ascontiguousarray(view.apply(torch.from_numpy(np.ascontiguousarray(rows)), params).numpy())


def _drawn(view: View, images: Images, stream: str, first_row: int, seed: int) -> Params:
    shape = tuple(images.shape[1:])
    each = [view.draw(seeds.generator(seed, stream, step=first_row + at), 1, shape) for at in range(len(images))]
    return {name: torch.cat([params[name] for params in each]) for name in each[0]}


def checksum(table: Table) -> str:
    """BLAKE2b of all rows: texts, pixels, the contents of the picture files, or columns."""
    digest = hashlib.blake2b(digest_size=16)
    for part in _contents(table):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _contents(table: Table) -> Any:
    if table.texts is not None:
        return (text.encode("utf-8", "surrogatepass") for text in table.texts)
    if table.images is not None:
        return (path.read_bytes() for path in table.images)
    if table.columns is not None:
        return (f"{name}\n{columns_checksum(list(table.columns[name]))}".encode() for name in table.columns)
    return (np.ascontiguousarray(table.array[at : at + 256]).tobytes() for at in range(0, len(table), 256))  # type: ignore[index]


def columns_checksum(values: Sequence[object]) -> str:
    """BLAKE2b of labels or names."""
    return hashlib.blake2b("\n".join(map(str, values)).encode(), digest_size=16).hexdigest()
