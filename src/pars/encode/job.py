"""The job of `pars encode`: every row once, its views, resumable at any moment and with the same outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pars.data import Table
from pars.encode.batch import StoredViews, check_kinds, encode_batch
from pars.encode.encoder import Encoder
from pars.encode.memory import batch_size, free_memory
from pars.encode.rows import checksum, columns_checksum
from pars.encode.saved import FILE, description, load_encoder, save_encoder
from pars.encode.store import Store
from pars.errors import UserError

SAVE_SECONDS = 5.0


@dataclass
class Progress:
    """Who is told. `start` gets all rows and those done; `step` rows just done; `stopped` says whether to stop."""

    start: Callable[[int, int], None] = lambda total, done: None
    step: Callable[[int], None] = lambda rows: None
    stopped: Callable[[], bool] = lambda: False


def encode_table(
    train: Table,
    out: Path,
    encoder: Encoder,
    *,
    test: Table | None = None,
    views: StoredViews | None = None,
    batch: int | None = None,
    progress: Progress | None = None,
) -> bool:
    """Encode a table into OUT (.npz, or a folder of .npy); whether it was finished, not stopped.

    Training rows get their plain features (x) and `views.count` weak and strong ones (x_views), test rows plain ones.
    A call that was stopped or killed is gone on with by the same call; on other rows, or with another encoder or other
    views, that is refused. Rows are encoded in batches of the same size then, so that the outcome has the same bytes.
    """
    views, progress = views or StoredViews(), progress or Progress()
    _check(train, test, encoder, views, batch)
    store = Store(out)
    store.check_free()
    then = store.recorded_job()
    fitted = _fitted(store, train, encoder)
    job = _job(train, test, fitted, views)
    if then is None:
        job["batch"] = batch or batch_size(fitted, free_memory())
        job["features"] = encode_batch(train, 0, 1, fitted, views)[0].shape[1]
    else:
        _check_same(job, then, store, batch)
        job = then
    done = store.begin(job, _shapes(train, test, job["features"], views))
    if fitted.can_be_named and not (store.encoder / FILE).exists():
        save_encoder(fitted, store.encoder)

    def encode(name: str, table: Table, start: int, stop: int) -> None:
        plain, seen = encode_batch(table, start, stop, fitted, views if name == "x" else StoredViews())
        store.maps[name][start:stop] = plain
        if seen.shape[1]:
            store.maps["x_views"][start:stop] = seen

    tables = {"x": train} | ({} if test is None else {"x_test": test})
    if not _run(store, done, tables, encode, job["batch"], progress):
        return False
    store.finish(_labels(train, test))
    return True


def _check(train: Table, test: Table | None, encoder: Encoder, views: StoredViews, batch: int | None) -> None:
    check_kinds(encoder, views, *((train,) if test is None else (train, test)))
    if batch is not None and batch < 1:
        raise UserError(f"batch: {batch}, expected at least 1")
    if test is not None and test.classes != train.classes:
        raise UserError(f"{test.source} has other classes than {train.source}: {test.classes} and {train.classes}")


def _fitted(store: Store, train: Table, encoder: Encoder) -> Encoder:
    """The encoder that has seen the training texts; the one that was saved where the job goes on."""
    if encoder.fit is None:
        return encoder
    saved = store.job.exists() and (store.encoder / FILE).exists()
    return load_encoder(store.encoder) if saved else encoder.fitted(train.texts or [])


def _job(train: Table, test: Table | None, encoder: Encoder, views: StoredViews) -> dict[str, Any]:
    """What decides the outcome, as JSON values."""
    return {
        "encoder": description(encoder),
        "train": _described(train),
        "test": None if test is None else _described(test),
        "views": {"count": views.count, "seed": views.seed, "config": asdict(views.config)},
    }


def _described(table: Table) -> dict[str, Any]:
    labels = [*table.labels.tolist(), *([] if table.true_labels is None else table.true_labels.tolist())]
    return {
        "rows": len(table),
        "rows_blake2b": checksum(table),
        "labels_blake2b": columns_checksum([*labels, *table.classes, *table.ids]),
    }


def _check_same(now: Mapping[str, Any], then: Mapping[str, Any], store: Store, batch: int | None) -> None:
    for key, value in now.items():
        if then.get(key) != value:
            different = _difference(then.get(key), value)
            raise UserError(
                f"{store.work} was begun with another {key} ({different}); the same command goes on with it, "
                "or remove it to begin again"
            )
    if type(then.get("batch")) is not int or type(then.get("features")) is not int:
        raise UserError(f"{store.job} is damaged; remove {store.work} to begin again")
    if batch is not None and batch != then["batch"]:
        raise UserError(
            f"{store.work} was begun with batches of {then['batch']}, not {batch}; remove it to begin again"
        )


def _difference(then: Any, now: Any) -> str:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in now:
            if then.get(key) != now[key]:
                return f"{key}: {_difference(then.get(key), now[key])}"
    return f"then {str(then)[:80]}, now {str(now)[:80]}"


def _shapes(train: Table, test: Table | None, features: int, views: StoredViews) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"x": (len(train), features)}
    if views.count:
        shapes["x_views"] = (len(train), 2 * views.count, features)
    if test is not None:
        shapes["x_test"] = (len(test), features)
    return shapes


def _run(
    store: Store,
    done: dict[str, int],
    tables: Mapping[str, Table],
    encode: Callable[..., None],
    batch: int,
    at: Progress,
) -> bool:
    """Encode what is not done yet; whether it was finished, not stopped."""
    at.start(sum(map(len, tables.values())), sum(done[name] for name in tables))
    saved_at = time.monotonic()
    for name, table in tables.items():
        for start in range(done[name], len(table), batch):
            stop = min(start + batch, len(table))
            encode(name, table, start, stop)
            done[name] = stop
            at.step(stop - start)
            stopped = at.stopped() and any(done[part] < len(rows) for part, rows in tables.items())
            if stopped or time.monotonic() - saved_at > SAVE_SECONDS:
                store.save(done)
                saved_at = time.monotonic()
            if stopped:
                return False
    store.save(done)
    return True


def _labels(train: Table, test: Table | None) -> dict[str, Any]:
    """What is stored beside the features: labels where there are any, names of classes and rows."""
    out: dict[str, Any] = {"ids": np.array(train.ids, dtype=np.str_)}
    if (train.labels >= 0).any():
        out |= {"y": train.labels, "classes": np.array(train.classes, dtype=np.str_)}
        if train.true_labels is not None:
            out["y_true"] = train.true_labels
        if test is not None:
            out["y_test"] = test.labels
    return out
